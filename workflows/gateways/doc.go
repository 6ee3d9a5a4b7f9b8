// Package gateways gives gateways their parts of a change: each runs its own on a task
// queue of its own, all of them at once. One that is gone does not hold a change up for
// longer than its heartbeat timeout, and not at all once the fleet has said that it is gone
// or that another process has its name: should it come back, it joins anew and is told what
// serves.
package gateways
