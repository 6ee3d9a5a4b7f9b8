// Package cluster plans clusters: how many devices, any of which may run any model,
// the declared rates of many pipelines need, and which pipelines share a dispatcher
// (Symphony, sections 4.2, 4.7 and appendix A).
//
//	plan.go       the problem, and the plan with its text and its JSON
//	solve.go      the steps: divide objectives, divide the cluster (the problem for
//	              Partition), size each part
//	size.go       the least number of devices that attains, by simulation, and a bound
//
//	division      the objective of a pipeline among its modules
//	partition     models among sub-clusters
//
// A plan of package plan proves for even arrivals; here nothing is proven for the
// single request, and what is promised is what the simulator, driving the policy
// that serves, attains with stated confidence.
//
// # Sub-clusters
//
// Partition divides the models of a cluster among sub-clusters, each
// with a dispatcher of its own and devices that hold all models of the
// sub-cluster (Symphony, section 4.7 and appendix A).
//
// The program is the paper's, equations 4 to 11: every model in one sub-cluster
// (9, 10), no sub-cluster with more requests than a dispatcher decides (5) or
// more memory than a device has (6), requests and memory as even as possible
// (4, 7, 8), and from what runs no more moved than is allowed (11).
//
//	partition_problem.go  the program, and what an assignment is worth
//	partition.go          all assignments, where they are few; else greedy, then moves and
//	                      swaps until none helps, kicks out of dead ends, and a bound on what
//	                      no assignment can be better than, moves counted
package cluster
