// Package matching is the query distribution of Kairos (section 5.1): queries of different sizes
// are paired with instances of different kinds at the least sum of costs.
//
//	matching.go  the policy: events in, actions out
//	decide.go    one decision: costs of pairs, solved by package assign
//	learn.go     latencies by kind and size, from what was seen
//	inherit.go   going on with what another policy has learned
package matching
