// Package invoke calls functions at a provider: one HTTP request of the Open
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
// Only what has certainly not run: a connection that could not be made, and an
// answer 429 or 503 that says with Retry-After when to come again. Everything
// else may have run and been billed, and may go wrong the same way again. And
// only while a request of the batch can still be answered in time: the wait and
// the function's average latency must end before the batch's latest deadline.
//
// # What a provider tells
//
// The header Server-Timing, where there is one, tells the time in milliseconds:
//
//	Server-Timing: init;dur=412.5, run;dur=183.2
//
// init is there after a cold start only, and run is what is billed. A provider
// that sends none is billed by this side's clock, network and all, and only the
// first call of an address counts as a cold start; Outcome.Estimated says so.
//
// The header Harpagon-Charge, where there is one, tells what the provider asks for the
// call, in money. It is set beside what the declared terms make of the time.
package invoke
