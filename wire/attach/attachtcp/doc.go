// Package attachtcp carries the stream between gateway and executor over TCP, for hosts
// apart, in the frames of package frames, with TLS or without. Each side sees an
// attach.Stream like that of attach.Pipe: Send never waits, and what was sent before Close
// still arrives.
//
// The gateway calls Serve with Gateway.Attach; a worker's Host dials with
// Dialer.Dial. Both must have the same token. Without TLS the token and all
// tensors travel in the clear: set TLS outside a trusted network.
//
// # Protocol
//
// Either side sends a preamble with the version. Behind it the executor sends its token.
// Then a frame is a byte for its kind and a message of attachpb, or at last, either way,
// the end: with the reason as text, which is empty in good order. A connection that ends
// without one is broken.
//
// Who receives reads the connection himself. Where nobody has for a while, because of a long
// batch, another goroutine reads ahead, so that the other side hears that this one lives.
package attachtcp
