// Package dispatch decides, request by request, which batch runs where.
//
// A Policy is a pure state machine. Its driver (a dispatcher, or a simulator
// with a virtual clock; both by a Station) reports events: a request arrived, an executor is
// free, a timer fired. Step answers with actions: start this batch on that
// executor, set a timer, drop a request. The policy reads no clock, starts no goroutine and
// never calls its driver: a question to it is an action, the answer an event. The same
// events at the same instants yield the same actions, so that what is simulated is what
// runs, and what ran can be decided again (package recording).
//
// What every policy promises its driver:
//
//   - a request that arrived ends in exactly one of: part of one Start, one
//     Drop, or a Cancel that the driver itself reported before either;
//   - a batch starts only on an executor that is up and idle;
//   - nothing starts that cannot finish by its deadline, going by the profiled
//     duration;
//   - as long as one executor is up, no request waits for ever.
//
// This package has the words that policies and drivers share. The policies:
//
//   - package tc, the batch-aware dispatch of the Harpagon paper (section III-B)
//     with the open batches ordered by due date.
//   - package roundrobin, for comparison: requests, or batches in the paper's order, to executors in
//     turn.
//   - package shared, policies of clusters: adaptive, the default there,
//     deferred (Symphony), and the baselines eager, clockwork and nexus.
//     upperLimit in experiments bounds what any of them can reach.
//   - package matching, Kairos: queries of different sizes to instances that
//     differ, by assignment at least cost (Assignment).
//   - package grouped, HarmonyBatch: one queue per group of applications, a
//     timeout per application.
//
// Package factory makes any of them from data, for all drivers. Fleet, Agenda, Meter
// and Pace are what policies are built from.
//
// A driver calls Step from one goroutine at a time. Batches in actions alias
// memory of the policy and hold until the next Step.
//
// # Agendas
//
// An Agenda keeps what is to come, by time: the instants at which models
// must be looked at, executors become free, or simulated events happen.
//
// Everything that can be on an agenda has a small whole number, so that it can
// be found, moved and taken out in O(log n), and nothing is allocated once
// there is room for all numbers. What comes at the same time is ordered by
// number: the same history always yields the same order, which simulations and
// transcripts rely on.
//
// # Fleets
//
// A Fleet keeps the executors that a policy may use: which of them are up, which can take
// a batch now, and when those that work will be free.
//
// # Measures
//
// Meter, Pace and Lateness hold what policies measure of the world while they run: the rate at which
// requests come (Meter) and how long batches take in terms of their profile (Pace).
package dispatch
