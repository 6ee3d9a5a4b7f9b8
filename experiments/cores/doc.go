// Package cores drives a dispatcher, or one policy without it, as fast as it goes, and
// says how fast that is.
//
// The clock of a run is virtual: it advances with the arrivals, whose gaps are drawn
// beforehand. So the policies see the same load whatever the machine is able to do or has
// to do beside, and a run measures what a request costs: in time, and in processor time,
// which other work on the machine hardly changes. A worker that gets ahead of another
// waits for it, and so does the clock.
//
// Step drives one policy from one goroutine: what deciding takes. Run drives a
// dispatcher.Dispatcher as it serves, with admission, counts and the ends of batches, from
// so many goroutines; each is a gateway with a part of the models and of the executors.
// Drawing arrivals from the prepared ones and emulating executors are part of what is
// measured.
package cores
