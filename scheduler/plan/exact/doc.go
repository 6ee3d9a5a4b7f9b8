// Package exact plans at the least cost of a sound plan, with a lower bound: status
// Optimal means a relative gap of at most 1e-6 between the two. It does so for
// each cost model.
//
//	proportional  split.Cheapest is the theorem for one module, and split.Search
//	              finds the best budgets
//	whole         whole.go holds the theorem, kinds.go and enumerate.go the
//	              devices to choose from, mixture.go what two kinds can do
//	              together and refute.go what they cannot; wholesplit.go
//	              searches the budgets
//	shared        shared.go says what a device may be shared for, pack.go fills
//	              devices, packing.go does so under given budgets, starts.go
//	              has budgets to try, grouping.go chooses who shares a device
//	              and fits budgets to that, sharing.go searches, together.go
//	              writes the plans; package bound has the bound
//
// Processing steps of microseconds run beside executors (colocated.go).
//
// The bound knows no limits on devices beyond those of a single module: where a
// count makes plans dearer, the status is Feasible.
package exact
