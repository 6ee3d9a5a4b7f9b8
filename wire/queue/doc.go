// Package queue is the protocol between a gateway and a dispatcher: what waits, what
// starts, what is given up. No tensor travels here.
//
// The gateway opens a connection and both sides send Hello. Then it reports which deployments
// it serves (Install) and, for every item of a request that is ready at a module, Arrive. The
// dispatcher answers, in its own time and order, with Start for the items that begin together
// on an executor, or Drop. What the gateway calls an item or a request is a number of its own
// choice, which comes back as it was.
//
// # Frames
//
// A message is a frame of package stream: a byte for its kind, and its fields as varints,
// or as bytes with their length before them. Before the first frame either side sends the
// preamble, with the version of the protocol, by which a peer that speaks something else
// is distinguished.
//
// Package attach has the messages of protobuf in the same frames: a few for every batch, with
// tensors beside which they cost nothing. A dispatcher gets and sends several for every item.
// Written and read, the four fields of a protobuf message take three to seven times as long as
// the twelve of an Arrive here (0.65 to 0.9 us and 0.11 to 0.19, BenchmarkMessages), which would
// be half of what a dispatcher takes for an arrival (1.2 to 1.5 us, docs/results/dispatcher.md).
//
// # Times
//
// Clocks of hosts differ, so every time is sent as a distance from now: how long ago a request
// arrived, how much time is left.
package queue
