// Package plan decides what to run: for one pipeline, its profiles and the
// hardware on offer, how much of the latency objective each module may use,
// and which configurations on how many machines serve it for least money.
//
// Solve answers the whole question. The two steps of the Harpagon paper are
// also there one by one, for a workflow that records them as activities:
//
//	budgets, err := plan.SplitLatency(problem, options) // Algorithm 2
//	p, err := plan.ScheduleModules(problem, options, budgets) // Algorithm 1
//
// A configuration is (hardware, batch b, concurrency s) with its measured
// duration d; a machine that runs it serves t = s·b/d requests per second for
// a price p per hour. A module that receives T requests per second under a
// budget L gets groups of machines; a group whose requests are collected at w
// requests per second answers within d + b/w of their arrival (Theorem 1).
//
// The files follow the paper's section III: theorem1.go, algorithm1.go,
// dummy.go and reassign.go schedule one module; algorithm2.go, merge.go and
// direct.go split the latency; splits.go holds the other ways to split that
// the paper compares with, and baseline.go the systems that it does.
//
// Policy exact finds the least cost that any sound plan can have and proves it:
// exact.go holds the theorem for one module, frontier.go its costs as a function
// of the budget, relax.go a lower bound for a whole pipeline and branch.go the
// search that closes the gap between the two. Status Optimal means a relative
// gap of at most 1e-6 between cost and bound. The bound knows no limits on
// devices: where a count makes plans dearer, the status is Feasible. Everything is a pure function of its arguments.
package plan
