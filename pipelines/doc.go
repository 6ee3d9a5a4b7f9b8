// Package pipelines is the declaration of what Harpagon serves: pipelines of
// modules under one latency objective, pools, functions, the hardware that may
// run them, and what was measured of them.
//
// Here are the types, and what follows from them alone: the order of modules,
// their rates and scopes, the longest path, the margin that planning keeps, how
// long a pool's query or a function's batch takes. Around them stand
//
//	language  HCL: load, print, format
//	files     profiles, traces, sizes and samples that a declaration names
//	check     what is wrong with a declaration
//	build     the same declaration, made in Go
//	library   the applications of the papers
//
// # Check
//
// check finds what is wrong with a declaration: names that do not exist,
// shapes that do not fit, cycles, objectives that no hardware can meet. All of it
// is found in one pass, as data: a Finding says by a path such as
// "pipeline.traffic.module.detect.profile" what it is about, and package hcl
// turns that into a line and a column.
//
// CheckAll is for a declaration that was read from files; CheckDocument and CheckFunction are
// for what a program made.
//
// # Isotonic
//
// isotonic makes measured durations rise with the batch size, as they do on any
// device, whatever the noise of single measurements.
package pipelines
