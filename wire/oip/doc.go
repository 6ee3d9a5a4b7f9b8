// Package oip is the codec of the Open Inference Protocol, version 2, over
// HTTP: inference requests, answers, metadata and errors as JSON, with the
// binary tensor extension. The gateway's server and the SDK's client share it,
// so that what one writes the other reads.
//
// With the extension, a body is a JSON object followed by the raw data of all
// tensors that have the parameter binary_data_size, in order; the HTTP header
// HeaderLength says how long the JSON is. Without it, "data" is an array in
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
package oip
