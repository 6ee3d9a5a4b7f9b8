// Package autoscale turns what was measured of a running pipeline into advice.
//
// A driver collects Measures over a span of time, for example ten seconds, and
// hands them to a detector together with the instant at which the span ended.
// Detectors are pure state machines: they read no clock and start nothing, so
// a workflow can replay them and a test can drive them through hours in no
// time. What they find is advice as plain data, with a sentence for people.
//
// # Hosts
//
// Hosts decides which hosts of a kind of hardware a provisioner makes and ends: a
// state machine that observes hosts and demand at intervals and returns what to do.
//
// Hosts are made when services need more than there are, and when there are fewer than Min.
// There are never more than Max, hosts that are about to end included, since they cost
// money until they are gone. A host is drained when it has not been needed for Idle: none
// of its devices is reserved, or what is reserved fits on free devices of other hosts. A
// driver (executors/hosts) carries the actions out; what fails is retried with growing
// delays.
package autoscale
