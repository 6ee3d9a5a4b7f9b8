// Package workflows keeps pipelines running, as Temporal workflows. Requests
// never pass through here; what does is what must survive: specs, profiles,
// plans, placements, and the reasons for them.
//
//   - `pipeline` (ID pipeline/NAME) owns one pipeline. Updates change it:
//     apply, rescale, drain, delete. It plans anew when its spec changes, when
//     the measured rate drifts away from the planned one, and when an executor
//     or a host is lost. One change is under way at a time; when several come
//     meanwhile, the latest spec wins. When a change fails, the old plan goes
//     on serving and the status says why.
//   - `profile` measures modules that have no profile, one activity a module
//     and kind of hardware.
//   - `reschedule` is one change, from the old plan to the new one: split the
//     latency, schedule the modules, place, reserve, reconcile, start
//     executors, wait until they are ready, move traffic, release the old.
//   - `executor` (ID executor/...) owns one executor's long-running activity.
//     It outlives the reschedule that started it; to cancel it is to drain it.
//   - `function` (ID function/NAME) owns one function: it plans, checks that the
//     provider answers, moves traffic, and plans anew when the rate of an
//     application drifts away. Functions have no executors of ours.
//   - `fleet` (ID fleet) knows hosts and devices and who has reserved them.
//   - `host` (ID host/NAME) keeps one host in the fleet as long as the host
//     heartbeats.
//
// In Temporal's UI, the list shows phase, generation and cost per hour as
// search attributes; a pipeline's current details show the live plan and the
// last decisions; every reschedule has a summary that says what changes.
package workflows
