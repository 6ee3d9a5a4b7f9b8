// Package workflows keeps services running, as Temporal workflows. Requests
// never pass through here; what does is what must survive: specs, profiles,
// plans, placements, and the reasons for them.
//
//   - `service` (ID KIND/NAME, such as pipeline/traffic) owns one service,
//     whatever its kind. Updates change it: apply, rescale, profile, drain,
//     delete. It plans anew when its spec changes, when what the gateway measures
//     drifts away from what was planned for, and when an executor or a host is
//     lost. One change is under way at a time; when several come meanwhile, the
//     latest spec wins. When a change fails, the old plan goes on serving and the
//     status says why.
//   - `profile` (package profiling) measures modules that have no profile, one activity a module
//     and kind of hardware.
//   - `reschedule` (package rescheduling) is one change, from the old plan to the new one: Plan, Place,
//     Reconcile, start executors, Prepare, Install, Release. The plan of a
//     function has no slots, so nothing is placed or started for it.
//   - `executor` (ID executor/...) owns one executor's long-running activity.
//     It outlives the reschedule that started it; to cancel it is to drain it.
//   - `fleet` (ID fleet) knows hosts and devices and who has reserved them, and which
//     gateways there are; it tells hosts and services of those (fleet_members.go).
//   - `member` (ID gateway/NAME/INSTANCE) keeps one gateway in the fleet.
//   - `host` (ID host/NAME) keeps one host in the fleet as long as the host
//     heartbeats.
//
// Start reading at Service (service.go), then package rescheduling. What differs by kind is
// in drift.go (which measure calls for another plan) and check.go; what a kind
// needs to be planned and served is in package scheduler (Solve, Spec.Deploy).
//
// In Temporal's UI, the list shows service, generation, phase and cost per hour
// as search attributes; a service's current details show the live plan and the
// last decisions; every reschedule has a summary that says what changes.
package workflows
