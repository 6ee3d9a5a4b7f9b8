// Package faults finds what is wrong with the spec of a service that no plan could mend,
// so that it is refused when it is applied and never enters a workflow's history: no
// name, no hardware, a policy that does not suit its kind, a cluster whose pipelines are
// not declared, a provider without an address.
package faults
