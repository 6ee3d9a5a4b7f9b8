// Package grpcapi serves pipelines over gRPC with the Open Inference Protocol,
// version 2, beside package httpapi. To a client of the protocol a pipeline is
// a model and the generation of its plan is the model's version.
//
// Of service inference.GRPCInferenceService there are ServerLive, ServerReady,
// ModelReady, ServerMetadata, ModelMetadata and ModelInfer, and of the
// extensions ModelStreamInfer, ModelStatistics, ModelConfig and RepositoryIndex.
// RepositoryModelLoad and RepositoryModelUnload are refused with what to do instead; other
// calls get the status Unimplemented.
//
// Tensors travel raw or as typed contents, see package wire/oip/oipgrpc. The
// deadline of the call is the request's where it comes before arrival plus
// objective; so is the parameter "timeout", in microseconds. The status is
// InvalidArgument for an invalid request, NotFound for an unknown pipeline or
// version, ResourceExhausted when overloaded or when a message is beyond the
// limit, Unavailable when no executor can serve, DeadlineExceeded when the
// deadline cannot be met, and Unauthenticated without the token. A client that
// hangs up cancels its request. An output may be asked for as classes (parameter
// "classification"); parameters that are not known are refused. Requests may be compressed
// by gzip; answers are not.
//
// By a stream, requests are answered as they are done. Each is admitted as if it had a call of
// its own, and counted from when it has been read: the one that each stream is bringing is not.
// A server that ends answers what streams bring until their clients end them, for as long as it
// waits for calls.
//
// What calls bring counts while it comes, where the frames of their connection are read (metered).
//
// Beside it stand grpc.health.v1 and reflection (v1, v1alpha). Of health the empty name, or
// inference.GRPCInferenceService, is the gateway as ServerReady reports it, and the name of a
// pipeline is that, as ModelReady does; Watch looks every 250 ms and ends with Unavailable
// when the server stops.
//
// With a token, a client sends the metadata "authorization: Bearer TOKEN" with
// every call but ServerLive, ServerReady and Check of the gateway as a whole; reflection
// takes any token. Listen refuses to serve beyond the loopback interface without one.
package grpcapi
