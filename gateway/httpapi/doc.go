// Package httpapi serves pipelines over HTTP with the Open Inference Protocol,
// version 2. To a client of the protocol a pipeline is a model and the
// generation of its plan is the model's version.
//
//	GET  /v2                                  the server and its extensions
//	GET  /v2/health/live                      200 while the process serves
//	GET  /v2/health/ready                     200 when the gateway has received all services
//	GET  /v2/models                           names of the pipelines
//	GET  /v2/models/{name}[/versions/{v}]     inputs, outputs, SLO
//	GET  .../ready                            200 when every module has an executor
//	POST .../infer                            one request
//	GET  .../stream                           a WebSocket, each message of which is a request
//	GET  .../stats, /v2/models/stats          what was seen since the start
//	GET  .../config                           its configuration, as Triton's clients ask for it
//	POST /v2/repository/index                 names, versions and states
//	POST /v2/repository/models/{name}/load    refused, and unload, with what to do instead
//	GET  /v2/systemsharedmemory[/region/{name}]/status, POST .../register, .../unregister
//	                                          where Options.Regions is set
//	GET  /metrics                             where Options.Metrics is set
//
// Tensors travel as JSON or as binary data, see package wire/oip. The request
// parameter "timeout", in microseconds, shortens the deadline, and an output's parameter
// "classification" asks for so many classes in its place; parameters that are not known are
// refused. Bodies may be compressed by gzip or deflate, and long answers are where
// Accept-Encoding names one of them.
//
// Errors are JSON, of any path, with the protocol's "error" and, beside it, code, stage, budget
// and elapsed time; the status is 400 for an invalid request, 404 for an unknown pipeline, 405
// for a method that the path does not have, 413 for a body beyond the limit (once it is
// decompressed, too), 415 for another coding, 429 when overloaded, 503 when no executor can
// serve, and 504 when the deadline cannot be met. A client that hangs up cancels its request, within 0.1 s; so does one
// that only half-closes its connection, as with any server of net/http.
//
// A message of a WebSocket is the body of a request: text where all of it is JSON; binary where
// tensors follow it, after the length of the JSON part in four bytes, the highest first. Answers come
// in the order of requests, one for each, in the same form; in place of one that failed comes the JSON
// of its error, with the request's "id". ?stream=NAME is the "sequence_id" of requests without one,
// &kind=NAME their "stream_kind".
// No more than sixteen are under way; then the client waits. Who connects shows a token as for any
// request, and a browser must come from the gateway's own origin.
//
// A request's time runs from when the last of it came to this machine, where the system reports it
// (Linux, HTTP/1, with TLS or without), not from when it was read: on a machine whose processors
// are all in use the two are far apart, and what can no longer be in time is refused before its
// body is read. For a second after the system's clock was set, it runs from when the request was
// read.
//
// Package wire/listen opens what is listened on, and refuses addresses beyond the
// loopback interface without a token.
package httpapi
