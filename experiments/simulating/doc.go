// Package simulating holds plans to their promises by simulation: on the
// workloads of package planning, request by request.
package simulating
