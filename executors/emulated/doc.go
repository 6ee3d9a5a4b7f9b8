// Package emulated is an engine that computes nothing: it sleeps for as long
// as the profile states a batch takes on the hardware that it stands in for, and
// answers with small constant tensors of the right kind.
//
// With it a pipeline can be run, loaded and re-planned on a laptop exactly as
// it would be on machines that are not there.
//
// # Durations
//
// A batch of n requests takes the profiled duration of the smallest measured
// batch of at least n, as an engine does that pads. A duration of zero returns
// at once, without a timer.
//
// On Linux a batch ends about 0.1 ms late at the median on idle cores (package
// internal/osutil).
//
// # Outputs
//
// Nothing random happens; the same batches in the same order give the same
// answers. An output of which nothing is known is an FP32 tensor of shape [1].
// An output that feeds a module with fan-out has k rows of shape [1], where k
// follows Model.OutputRows: over n requests, floor(n·mean) rows have been given
// out. Outputs with the same mean have the same k in every request. Replicas of
// a module count each on their own, so outputs of different modules that feed
// one fan-out together do not agree; route such a fan-out through one module.
//
// Where Options.Signatures has the module, the tensors have the datatypes and shapes of its
// signature, filled with zeros.
package emulated
