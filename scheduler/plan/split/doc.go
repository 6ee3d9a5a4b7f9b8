// Package split divides a latency objective among the modules of a DAG at least
// cost, given what each module costs as a function of its budget (Cost).
//
// Curves are that cost under the proportional cost model: the least over
// configurations of a hyperbola that ends in a constant (Cheapest has the
// theorem). Steps are it where whole devices are counted. relaxation.go bounds the
// cost of a whole pipeline from below, for any DAG, and Search closes the gap by
// branch and bound. Reassign gives what a split leaves over to modules that save
// by it.
package split
