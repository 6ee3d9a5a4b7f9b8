// Package sdk is what a Go program imports to send requests to pipelines.
//
//	client, err := sdk.Dial(ctx, "127.0.0.1:8080")
//	...
//	out, err := client.Infer(ctx, "traffic", sdk.Inputs{
//		"frame": sdk.Float32(pixels, 3, 96, 96),
//	})
//	...
//	kinds, err := out.Strings("vehicles")
//
// A deadline of ctx that comes before the pipeline's SLO becomes the request's
// deadline, at the gateway too; cancelling ctx takes the request out of all
// queues. Errors are *Error and work with errors.Is and errors.As:
//
//	var e *sdk.Error
//	if errors.Is(err, sdk.ErrDeadline) && errors.As(err, &e) {
//		log.Printf("%s needed more than %v", e.Stage, e.Budget)
//	}
//
// InferBatch sends several requests at once and returns the outcome of each.
//
// Dial takes the addresses of several gateways, balances requests over them and goes
// on with the next when one is gone: a request without an answer is sent again while its
// deadline allows. Requests that were answered, with an error too, are not repeated:
// whether that is still worth it is for the program to decide.
//
// Package sdkgrpc does the same over gRPC.
//
// The package is light: it imports the declaration and the wire protocol and
// no server. Program and system in one process are package sdk/local; a fake
// gateway for tests of programs that use this package is sdk/sdktest.
package sdk
