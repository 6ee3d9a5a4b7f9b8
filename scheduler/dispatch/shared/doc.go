// Package shared holds the policies over a shared pool of devices: any executor runs any model,
// and one dispatcher serves all of them.
//
//	pool.go       what all of them have in common: queues, executors, clock and timer
//	line.go       the queue of a model; profile.go, target.go, window.go: durations and batch sizes
//	adaptive.go   the default: deferred batching with a target from the staggered bound
//	fair.go       what it does so that no model starves beside others
//	foresight.go  its look at the turns to come; burst.go tells bursts and pauses from random arrivals
//	deferred.go   Symphony (section 4): a batch waits while its deadline allows
//	eager.go, clockwork.go, nexus.go  baselines
//	new.go        makes one by name
//
// UpperLimit in experiments bounds what any of them can reach.
package shared
