// Package plan decides what to run: for one pipeline, its profiles and the
// hardware on offer, how much of the latency objective each module may use,
// and which configurations on how many machines serve it for least money.
//
// Solve answers the whole question, SolveAll for several pipelines that may share
// devices. The two steps of the Harpagon paper are also there one by one, for a
// workflow that records them as activities:
//
//	budgets, err := plan.SplitLatency(problem, options) // Algorithm 2
//	p, err := plan.ScheduleModules(problem, options, budgets) // Algorithm 1
//
// A configuration is (hardware, batch b, concurrency s) with its measured
// duration d; a machine that runs it serves t = s·b/d requests per second for
// a price p per hour. A module that receives T requests per second under a
// budget L gets groups of machines; a group whose requests are collected at w
// requests per second answers within d + b/w of their arrival (Theorem 1 of the
// paper; package demand decides exactly what a dispatcher can keep).
//
// # Policy harpagon and the baselines
//
// The files follow the paper's section III: theorem1.go, algorithm1.go,
// dummy.go and reassign.go schedule one module; algorithm2.go, merge.go and
// direct.go split the latency; splits.go holds the other ways to split that the
// paper compares with. piccolo.go, baseline.go, squish.go and brute.go hold the
// systems that it compares with, and the exhaustive search; ablation.go names
// the variants of both papers' evaluations.
//
// # Policy exact
//
// It finds the least cost of a sound plan, with a lower bound: status Optimal
// means a relative gap of at most 1e-6 between the two.
//
//	proportional  exact.go holds the theorem for one module, frontier.go its
//	              costs as a function of the budget
//	whole         whole.go holds the theorem, kinds.go and enumerate.go the
//	              devices to choose from, mixture.go what two kinds can do
//	              together and refute.go what they cannot; stair.go is the
//	              trade-off that follows
//	shared        shared.go says what a device may be shared for, pack.go fills
//	              devices, sharing.go searches, together.go writes the plans
//
// relax.go bounds the cost of a whole pipeline from below, for any DAG, and
// branch.go is the search that closes the gap.
//
// The bound knows no limits on devices beyond those of a single module: where a
// count makes plans dearer, the status is Feasible.
//
// Everything is a pure function of its arguments.
package plan
