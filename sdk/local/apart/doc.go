// Package apart runs the embedded Temporal server in a process of its own, which is the same
// program started again.
//
// A gateway's requests take tenths of a millisecond each and one or two processors. Within
// one program Temporal's queues and its database take the same ones, for up to 10 ms at a time,
// before Go's scheduler gives the others their turn; of a process the kernel takes them at once.
// A server that fails leaves what serves alone, too, and is started again where it was.
//
// The child gets its options on standard input, answers once on a pipe, and ends when standard
// input does, so with whoever started it. What it prints is in the server's log.
package apart
