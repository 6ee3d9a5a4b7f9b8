// Package roundrobin hands requests to executors in turn, without regard to which of them idle: the
// dispatch that the Harpagon paper describes (section III-B, figure 4), for comparison.
//
//	turns.go    the policy: events in, actions out
//	cycle.go    whose turn it is
//	queue.go    what an executor has collected, and when it starts
//
// Each executor collects its own batch and starts it when it is full, or when its first request
// has waited for as long as the plan lets it. Under round robin, which the paper's baselines
// have, an executor gets one request at a time, and collects a batch at the rate of one machine: its
// worst case is twice the duration. In the paper's throughput-cost order it gets as many
// requests in a row as its batch holds, and collects at the rate of all machines from its own
// on down: d + b/w (Theorem 1), which is more than it can keep; package scheduler/plan/demand
// says why, and package tc has the order that keeps it.
package roundrobin
