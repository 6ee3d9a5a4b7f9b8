// Package cores drives the scheduler of package rank, or one policy without it,
// as fast as it goes, and says how fast that is.
//
// The clock of a run is virtual: it advances with the arrivals, whose gaps are
// drawn beforehand. So the policies see the same load whatever the machine is
// able to do or has to do beside, and a run measures what a request costs: in
// time, and in processor time, which other work on the machine hardly changes.
// A producer that gets ahead of the workers waits for them, and so does the
// clock.
//
// Step drives one policy from one goroutine, which is the measure for a core.
// Run drives a rank.Scheduler from one producer; drawing arrivals from the
// prepared ones, handing them over, and emulating all executors are part of
// what it measures.
package cores
