// Package serverless serves functions: it collects the requests of their
// applications into batches, as a plan's groups say, and calls the provider.
//
//	Infer "vgg19/assistant" ── policy grouped ── executors/invoke ── provider
//
// A function is addressed as FUNCTION/APPLICATION, because the application is
// what has an objective; one that has a single application may be addressed by
// its own name.
//
// The driver is thin. One lock a function guards the policy, the requests and
// the counts; calls run outside of it. To the policy a group is one executor, a
// door: a batch goes through, and the door opens again at once, because a
// provider runs as many calls as come. Only when as many run as the provider
// allows do the doors stay shut until one ends.
//
// # Time
//
// A request leaves at the latest at its own timeout, less a margin for timers
// that are late and for the network. It is dropped when not even a call of its
// own would meet its deadline any more, on average; the plan's maximum latency is
// a promise, not a limit. What has been sent is answered however late it comes,
// and counted as late.
//
// # Outcomes
//
// Every request ends in exactly one outcome, under the function's lock. A caller
// who leaves takes a waiting request with him; a call that has begun goes on,
// because the provider bills it anyway.
//
// # Changing the plan
//
// Install switches: waiting requests move to the queues of the new plan, calls
// under way end as they would have. Requests of an application that is gone
// fail.
package serverless
