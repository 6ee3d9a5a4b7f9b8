// Package remote is the engine "remote": it computes batches on a server that
// speaks the Open Inference Protocol, version 2, such as Triton, KServe, or
// another Harpagon. A module names the model there instead of a file:
//
//	module "classify" {
//	  engine = "remote"
//	  model  = "grpc://10.0.0.7:8001/resnet50"
//	  inputs = { image = input.picture }
//	}
//
// Package pipelines has the form of the address: grpc or http, with an s for
// TLS, and the settings version, batch, timeout and token_variable.
//
// # Batches
//
// A model whose inputs and outputs all have a first dimension that varies, and
// that is not a pipeline of another Harpagon, takes a batch in one request, its
// tensors stacked along that dimension. Any other gets one request for each,
// several at a time. The setting batch overrides either. Where shapes differ within a batch,
// those that agree go together.
//
// A server of this machine that names the extension for system shared memory, over HTTP, gets no tensors but
// where they lie: regions.go.
//
// # Health
//
// Loading waits until the server reports the model ready, reads its metadata, and warms up
// every batch size with zeros, so that a size above the model's limit is an error of loading.
// From then on readiness is checked every few seconds; after two failures batches fail at once
// with code "unavailable", until it is ready again. An executor that gets that code loads
// again, waiting longer every time.
//
// # Failures
//
// A request is sent again, after a short wait, where it cannot have been
// computed: when no server answers, or it answers that it is unavailable. When a connection
// ends before the answer, the request may have been computed; the batch then fails with code
// "unavailable" and the gateway repeats it, once. A server that does not answer within the
// timeout is "unavailable", too. What a server refuses has the code that it gives. An answer
// that cannot be read, or that has other names, datatypes or shapes than the metadata, has code
// "internal".
//
// The server's errors about a batch of several requests make the executor try
// each by itself, as with every engine.
package remote
