// Package wire holds what a client, a gateway and an executor say to each
// other: tensors, inference requests and answers, and the one typed error.
//
// A Tensor is raw memory as the Open Inference Protocol carries it, so that a
// picture travels from the client's socket to the engine without being taken
// apart. The constructors From... build tensors from Go slices and the
// accessors Float32s, Float16s, Bools, Strings and so on read them back; both copy.
//
// Tensors are values that several requests and goroutines may share. Nobody
// writes into Data or Shape after a tensor has been handed on.
//
// Sub-packages speak the protocols: wire/oip the Open Inference Protocol
// between client and gateway, wire/attach the stream between gateway and
// executor, wire/attach carries the same stream between hosts.
package wire
