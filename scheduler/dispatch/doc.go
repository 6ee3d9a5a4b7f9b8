// Package dispatch decides, request by request, which batch runs where.
//
// A Policy is a pure state machine. Its driver (the gateway, or a simulator
// with a virtual clock) reports events: a request arrived, an executor is
// free, a timer fired. Step answers with actions: start this batch on that
// executor, set a timer, drop a request. The policy reads no clock, starts no
// goroutine and keeps no reference to anything outside; the same events at the
// same instants yield the same actions, so that what is simulated is what
// runs, and a bug found in production replays as a test.
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
// Policies:
//
//   - NewTC, the batch-aware dispatch of the Harpagon paper (section III-B)
//     with the open batches ordered by due date.
//   - NewAdaptive, the default over a shared pool, and NewDeferred, Symphony,
//     which hold batches back; NewEager, NewClockwork and NewNexus, baselines
//     over the same pool. Package limit bounds what any of them can reach.
//   - NewMatching, Kairos: queries of different sizes to instances that differ,
//     by assignment at least cost (package assign).
//   - NewGrouped, HarmonyBatch: one queue per group of applications, a timeout
//     per application.
//
// A driver calls Step from one goroutine at a time. Batches in actions alias
// memory of the policy and hold until the next Step.
package dispatch
