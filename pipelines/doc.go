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
package pipelines
