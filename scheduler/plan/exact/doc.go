// Package exact plans at the least cost of a sound plan, with a lower bound: status
// Optimal means a relative gap of at most 1e-6 between the two. It does so for
// each cost model.
//
//	proportional  split.Cheapest is the theorem for one module, and split.Search
//	              finds the best budgets
//	whole         package whole
//	shared        shared.go says what a device may be shared for, parts.go what
//	              a module runs there, arrange.go how batches share one, pack.go
//	              fills devices, packing.go does so under given budgets and
//	              placing.go in every way, starts.go has budgets to try,
//	              grouping.go chooses who shares a device and fitting.go fits
//	              budgets to that, stricter.go looks at what more load would
//	              have, sharing.go searches, together.go writes the plans;
//	              package bound has the bound
//
// What a plan leaves of an objective is lent to those who would be late first
// (plan.Prepared.Lend).
//
// Processing steps of microseconds run beside executors (colocated.go).
//
// The bound knows no limits on devices beyond those of a single module: where a
// count makes plans dearer, the status is Feasible.
package exact
