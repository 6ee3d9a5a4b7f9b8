// Package graph runs a request through the modules of its service, with its tensors.
//
// A Graph is a deployment compiled for running: the modules in order, where the
// tensors of each come from, and the scopes of items that fan-out opens (package
// scheduler/flow). A Request begins with what needs only its inputs; every item that
// is complete makes others ready, until the last output is there. Ready items go to
// the graph's Queue, and come back by Complete or Fail.
//
// # Items and scopes
//
// A request is one item. A module that declares a fan-out splits every input
// that is one rank higher than a row into k items, and everything that follows
// from one of them belongs to its scope, until a module or an output outside
// the scope gathers the items again, in order. k may be zero.
//
// # Rows
//
// A query of a pool is one item of several rows, which travel to its executor as a
// batch of their own (rows.go). A Route says how the tensors of a module lie in the
// signature of an executor.
//
// # Ends
//
// A request ends once, whatever comes afterwards: with its outputs, or with the first
// error. The items that still wait are then taken back.
package graph
