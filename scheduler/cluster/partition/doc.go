// Package partition divides the models of a cluster among sub-clusters, each
// with a dispatcher of its own and devices that hold all models of the
// sub-cluster (Symphony, section 4.7 and appendix A).
//
// The program is the paper's, equations 4 to 11: every model in one sub-cluster
// (9, 10), no sub-cluster with more requests than a dispatcher decides (5) or
// more memory than a device has (6), requests and memory as even as possible
// (4, 7, 8), and from what runs no more moved than is allowed (11).
//
//	problem.go  the program, and what an assignment is worth
//	solve.go    greedy, then moves and swaps until none helps; kicks out of dead ends
//	bound.go    what no assignment can be better than, moves counted
//	exact.go    all assignments, where they are few
package partition
