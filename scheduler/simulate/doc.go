// Package simulate plays requests against the dispatchers on a virtual clock,
// and tells what becomes of each.
//
// It drives dispatch.Policy unmodified: the same state machines that the
// gateway drives, with the same events, so that what is simulated is what runs.
// It reads no clock and starts no goroutine; the same seed gives the same
// result, to the last digit, on any machine. Every random number belongs to a
// purpose with a sequence of its own (arrivals of a pipeline, fan-out of a
// pipeline, noise of devices), and arrivals at another rate are the same draws
// brought closer together: policies and rates are compared on the same luck.
//
//	loads ── arrivals ── graph ── station ── policy
//	                               │
//	                             flights ── device
//
// There are two settings:
//
//	OnPlans    runs a plan for each pipeline: one dispatcher a module, the plan's
//	           groups as executors, budgets as virtual arrivals
//	OnCluster  runs everything on one cluster of devices with one dispatcher,
//	           without a plan: the setting of Symphony
//
// and three questions on top of them:
//
//	Goodput   the highest rate at which enough requests are in time
//	Keeps     whether a plan keeps its promise, request by request
//	Solve     the cheapest plan that attains a share of random arrivals in time
//
// # What is counted
//
// A request is counted by its arrival: those of a warm-up are not. Each has one
// outcome: completed (answered within the SLO), late (answered after it),
// dropped (a policy gave it up, or two devices were lost under it) or refused
// (a queue was full). After the last arrival a run goes on until every request
// has its outcome. The interval around an attainment is the wider of Wilson's
// and that of batch means over stretches of time, because misses come in
// bursts.
//
// # What is left out
//
// Tensors, and the time to move them beyond Options.Delay; the bound on
// requests under way at the gateway's door; timers and devices that are not
// punctual beyond Options.Noise.
package simulate
