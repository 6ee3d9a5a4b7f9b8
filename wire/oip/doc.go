// Package oip is the codec of the Open Inference Protocol, version 2, over
// HTTP: inference requests, answers, metadata and errors as JSON, with the
// binary tensor extension. The gateway's server and the SDK's client share it,
// so that what one writes the other reads.
//
// With the extension, a body is a JSON object followed by the raw data of all
// tensors that have the parameter binary_data_size, in order; the HTTP header
// HeaderLength reports how long the JSON is. Without it, "data" is an array in
// row-major order, flat or nested.
//
// Beyond the protocol, a request understands the parameter "timeout" in
// microseconds, and an answer carries the parameters "generation" (of the plan
// that served it), "elapsed_ns" and "stages" (a string of JSON: protocol
// parameters are scalars), from which a wire.InferResponse is made whole
// again. Errors carry code, stage and times beside the protocol's "error".
//
// Decoding never panics and never allocates more than a small multiple of the
// body's length. Tensors of binary data alias the body.
//
// Package wire/oip/oipgrpc has the same over gRPC.
//
// # Servers
//
// A server reads requests by ReadHTTP, answers by WriteAnswer, WriteHTTP and WriteError, and asks
// for a token by Authorized; which paths it has is its own. Package
// gateway/httpapi serves a gateway's, package executors/serverless functions'.
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
// Every error is a *wire.Error or wraps one, and reports what the server did: not
// there, or ended the connection (unavailable), answered too late (deadline),
// refused (its own code), or gave an answer that is none of the protocol
// (internal). One that wraps oip.ErrLost came after the request had been sent,
// so that the server may have computed it.
package oip
