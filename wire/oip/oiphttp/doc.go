// Package oiphttp speaks the Open Inference Protocol, version 2, over HTTP. Package
// wire/oip has the messages and package wire/oip/oipgrpc the same over gRPC.
//
// # Servers
//
// A server reads requests by Read, answers by WriteAnswer, Write and Fail, and asks
// for a token by Authorized; which paths it has is its own. Package
// gateway/httpapi serves a gateway's, package executors/provider functions'.
//
// # Clients
//
// Client asks a model server, whoever wrote it: Harpagon, Triton, KServe, MLServer,
// or a program on a Unix socket. Do is the one exchange below it, for who must see
// status and headers.
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
