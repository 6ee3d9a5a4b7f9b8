// Package pipelines is the declaration of what Harpagon serves: pipelines of
// modules under one latency objective, the hardware that may run them, and
// what was measured of them.
//
// A declaration is written in HCL (Load) or in Go (New); both roads meet in
// one Document value, which prints back to the same canonical HCL.
package pipelines
