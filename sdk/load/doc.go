// Package load offers requests to a pipeline as the outside world would: open
// loop, at instants drawn beforehand, whether or not earlier requests have been
// answered.
//
// Latency counts from the instant at which a request was meant to be sent, so
// that a generator or server that stalls cannot hide it (no coordinated
// omission). A generator that falls far behind its own schedule leaves requests out and
// says how many: what it measures then holds for the rate that it kept. Requests of the warm-up are sent but not counted. Attainment is
// the share of all counted requests that were answered within the objective;
// refusals, drops and errors count against it.
//
// package arrivals draws the instants (pure, from a seed), Run sends, and Report holds
// what came of it, as data and as text.
package load
