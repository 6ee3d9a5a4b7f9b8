// Package oiphttp is the client of model servers that speak the Open Inference
// Protocol, version 2, over HTTP, whoever wrote them: Harpagon, Triton, KServe,
// MLServer, or a program on a Unix socket. Package wire/oip has the messages and
// package wire/oip/oipgrpc the same over gRPC.
//
// Tensors travel as binary data where the server's metadata name that
// extension, and as JSON otherwise.
//
// Every error is a *wire.Error or wraps one, and says what the server did: not
// there, or ended the connection (unavailable), answered too late (deadline),
// refused (its own code), or gave an answer that is none of the protocol
// (internal). One that wraps oip.ErrLost came after the request had been sent,
// so that the server may have computed it.
package oiphttp
