// Package bound says what pipelines cost at the least on whole devices that their
// modules may share, whatever the plan: a lower bound that policy exact certifies
// its plans with under cost model shared.
//
// bound.go makes cuts from prices of devices and finds the cheapest numbers of
// devices that obey all. apart.go makes stronger ones: a device is one module's
// alone, or its batches wait for those of another. hosting.go refutes few devices by
// who can run where, and in which order. residents.go looks at all choices of who
// shares which devices, for plans of at most two groups a module, and resident.go says
// what a module costs then. Where modules are more than that can do, columns.go has a
// linear program of what may be on a device (load.go) and of how pipelines divide their
// objectives (stage.go), and program.go solves it.
package bound
