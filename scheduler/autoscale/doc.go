// Package autoscale turns what was measured of a running pipeline into advice.
//
// A driver collects Measures over a span of time, for example ten seconds, and
// hands them to a detector together with the instant at which the span ended.
// Detectors are pure state machines: they read no clock and start nothing, so
// a workflow can replay them and a test can drive them through hours in no
// time. What they find is advice as plain data, with a sentence for people.
package autoscale
