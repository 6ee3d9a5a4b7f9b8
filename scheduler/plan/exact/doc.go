// Package exact plans at the least cost of a sound plan, with a lower bound: status
// Optimal means a relative gap of at most 1e-6 between the two. It does so for
// each cost model.
//
//	proportional  split.Cheapest is the theorem for one module, and split.Search
//	              finds the best budgets
//	whole         the files whole*.go
//	shared        shared_device.go has what a module runs on a device and how batches
//	              share one, shared_packing.go fills devices, under given budgets and in
//	              every way, shared_starts.go has budgets to try and what more load
//	              would have, grouping.go chooses who shares a device and
//	              grouping_fit.go fits budgets to that, shared_search.go searches,
//	              exact.go writes the plans; the files bound*.go have the bound
//
// What a plan leaves of an objective is lent to those who would be late first
// (plan.Prepared.DistributeSlack).
//
// Processing steps of microseconds run beside executors (colocated.go).
//
// The bound respects no limits on devices beyond those of a single module: where a count
// makes plans dearer, the status is Feasible.
//
// # Bounds
//
// The files bound*.go compute what pipelines cost at the least on whole devices that their
// modules may share, whatever the plan: a lower bound that policy exact certifies its plans
// with under cost model shared.
//
// bound.go makes cuts from prices of devices and finds the cheapest numbers of
// devices that obey all. bound_hosting.go refutes few devices by who can run where, and in
// which order. bound_residents.go covers all choices of which modules share which devices,
// for plans of at most two groups a module, and bound_resident_costs.go computes what a
// module costs then. Where modules are more than that can do, bound_columns.go has a linear
// program of what may be on a device and of how pipelines divide their objectives (both
// priced in bound_column_pricing.go), and solves it.
//
// # Whole devices
//
// The files whole*.go plan on whole devices, each for one module, at the least cost of a
// sound plan: for cost model whole, and under cost model shared for modules that share no
// device.
//
// whole_module.go holds the theorem and the devices to choose from, whole_mixture.go what two
// kinds can do together and what they cannot; whole_search.go searches the budgets and leaves
// devices that cost the same idle.
package exact
