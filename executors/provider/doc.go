// Package provider stands in for a cloud that runs functions: for examples,
// tests and trials on one machine. It answers the Open Inference Protocol at the
// addresses that a provider's URL template makes, and bills as the declaration
// says.
//
// A function of one size runs in instances. Each runs one batch at a time; a
// call that finds none idle starts one more, which is a cold start, up to a
// limit, beyond which calls are refused with status 429. An instance that idles
// for long enough is gone.
//
// How long a batch takes is drawn from the function's profile (PaceProfile):
// around the average, with the maximum as the 99th percentile and cut off there,
// as the planner's model has it. Where the function has a model, an engine
// computes the answer and the instance waits out the rest. PaceShare takes the
// engine's own time instead, and stretches it to the share of a core that a CPU
// function has, as a scheduler that lets it run for a part of every period
// would.
//
// The answer's header Server-Timing tells the time that is billed, and that of a
// cold start, which is not. GET /billing is the bill as JSON.
package provider
