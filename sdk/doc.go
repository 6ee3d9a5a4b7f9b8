// Package sdk is what a Go program imports to ask a pipeline for answers.
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
// InferBatch sends several requests at once and says of each what became of it.
//
// Dial takes the addresses of several gateways, balances requests over them and goes
// on with the next when one is gone: a request without an answer is asked again while
// its deadline allows. Requests that have an answer, whatever it is, are not repeated:
// whether another is still worth having a second later is the program's to know.
//
// Package sdkgrpc asks over gRPC in the same way.
//
// The package is light: it imports the declaration and the wire protocol and
// no server. Program and system in one process are package sdk/local; a fake
// gateway for tests of programs that use this package is sdk/sdktest.
package sdk
