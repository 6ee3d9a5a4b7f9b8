// Package oipgrpc is the Open Inference Protocol, version 2, over gRPC: how
// requests, answers, metadata and errors of package wire become its messages
// and come back, and a client of any server that speaks it. Package wire/oip
// has the same over HTTP.
//
// Tensors travel raw, in one piece beside the message, or as lists of numbers
// (typed contents); both are read. An answer has the form that its request had,
// unless a datatype has no list.
//
// The deadline of a call is the request's. Beyond the protocol, a request
// understands the parameter "timeout" in microseconds, an answer carries
// "generation", "elapsed_ns" and "stages" as over HTTP, and the status of an
// error has a detail of type google.rpc.ErrorInfo with code, stage and times, so
// that the typed error is whole again at the client. Clients that know of none
// of this see the usual status codes.
//
// By a stream of requests (ModelStreamInfer), a request may have the parameter "number", a whole
// number above 0, which its answer then has, too; a message with the parameter "cancel" of that
// number takes it back. An answer that is an error has in the parameter "status" what ModelInfer
// would have failed with, a google.rpc.Status in base64. A server that does so says so in the
// header "harpagon-numbered". The client shares streams among requests that are under way
// together, where its options and the server allow it.
package oipgrpc
