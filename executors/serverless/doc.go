// Package serverless calls functions at a provider, creates and measures them.
//
// # Calling
//
// An Invoker calls functions at a provider: one HTTP request of the Open
// Inference Protocol a batch, with the requests of the batch stacked along a
// first dimension.
//
// A Target is one function of one size. Target.Call sends a batch and returns an
// Outcome, which is complete whatever happens: answers or a typed error, how
// often the call was sent, whether it met a cold start, how long the provider
// bills it and what that costs.
//
// # What is sent again
//
// Only what has certainly not run: a connection that could not be made, and an answer 429 or
// 503 with Retry-After. Everything else may have run and been billed, and may go wrong the same
// way again. And only while a request of the batch can still be answered in time: the wait and
// the function's average latency must end before the batch's latest deadline.
//
// # What a provider reports
//
// The header Server-Timing, where there is one, has the time in milliseconds:
//
//	Server-Timing: init;dur=412.5, run;dur=183.2
//
// init is there after a cold start only, and run is what is billed. A provider
// that sends none is billed by this side's clock, network and all, and only the first call of
// an address counts as a cold start; Outcome.Estimated is set then.
//
// The header Harpagon-Charge, where there is one, is the provider's charge for the call, in
// money. It is compared with the cost by the declared terms.
//
// # Provisioning
//
// A Provisioner creates, resizes and deletes a provider's functions before
// traffic moves to them and after it has left.
//
// Hook is one over HTTP, for any cloud that has a small adapter in front; examples/functions
// answers it on this machine, and its host is a Provisioner itself, for programs that embed it.
// Ensure brings a provider to what is wanted, by any of them. It may be repeated: what is there
// already is left alone.
//
// # The hook
//
//	GET    URL?function=NAME   the function's instances: {"functions": [Function, ...]}
//	PUT    URL/NAME            create or resize it, with a Function as the body
//	DELETE URL/NAME            delete it; one that is not there is deleted
//
// PUT and DELETE answer 200, 201 or 204 when it is done, or 202 when it has begun; then the
// list has the state "pending" until it is "ready", or "failed" with a reason. Any other status
// is a refusal, and the answer's text, or its member "error", is the reason.
//
// # Measuring
//
// Survey calls the functions of a provider in several sizes and batches, and
// times what comes back: what a model's coefficients are fitted from
// (functions.Fit), and how long the network to the provider and its cold starts take besides.
//
// Every function is called once to start an instance, which is not counted among its
// times, and then a number of times in turn. A batch that a function refuses, because
// it does not fit its memory for one, is noted, and larger ones are not tried on it. A
// provider that is managed has the functions created before they are called, beside
// what it has, and is left with what it had.
package serverless
