// Package workflows keeps services running, as Temporal workflows. Requests
// never pass through here; what does is what must survive: specs, profiles,
// plans, placements, and the reasons for them.
//
//   - `service` (ID KIND/NAME, such as pipeline/traffic) owns one service,
//     whatever its kind. Updates change it: apply, rescale, profile, drain,
//     delete. It plans again when its spec changes, when what the gateway measures
//     drifts away from what was planned for, and when an executor or a host is
//     lost. One change is under way at a time; when several come meanwhile, the
//     latest spec wins. When a change fails, the old plan goes on serving and the
//     status has the reason.
//   - `profile` (profile.go) measures modules that have no profile, one activity a module
//     and kind of hardware.
//   - `reschedule` (reschedule.go) is one change, from the old plan to the new one: Plan, Place,
//     Reconcile, start executors, Prepare, Install, Release. The plan of a
//     function has no slots, so nothing is placed or started for it.
//   - `executor` (ID executor/...) owns one executor's long-running activity.
//     It outlives the reschedule that started it; to cancel it is to drain it.
//   - `fleet` (ID fleet) keeps hosts and devices, who has reserved them, and which
//     gateways there are; it notifies hosts and services of those (fleet_members.go).
//   - `member` (ID gateway/NAME/INSTANCE) keeps one gateway in the fleet.
//   - `host` (ID host/NAME) keeps one host in the fleet as long as the host
//     heartbeats.
//
// Start reading at Service (service.go), then Reschedule (reschedule.go). What differs by kind is
// in drift.go (which measure calls for another plan) and updates.go; what a kind
// needs to be planned and served is in package scheduler (Solve, Spec.Deploy).
//
// In Temporal's UI, the list shows service, generation, phase and cost per hour
// as search attributes; a service's current details show the live plan and the
// last decisions; every reschedule has a summary of what changes.
//
// # Requesting hosts
//
// place.go requests hosts. Where provisioners could make some, a change that cannot be
// carried out requests those that it is missing, and is tried again when one joins; one
// that serves with less than it should requests the rest.
//
// # Declarations
//
// Declarations are the specs that were applied to a service, so that it can go back to one.
// They are pure: the service's workflow keeps them in its state.
//
// # Faults
//
// SpecFaults finds what is wrong with the spec of a service that no plan could mend,
// so that it is refused when it is applied and never enters a workflow's history: no
// name, no hardware, a policy that does not suit its kind, a cluster whose pipelines are
// not declared, a provider without an address.
//
// # The fleet
//
// The files fleet*.go have the workflows that keep members: the fleet, which holds hosts
// with their devices, gateways, dispatchers, and what services have reserved; and one
// workflow for every host and member, whose held activity heartbeats from there, so that
// the fleet learns when it is gone. Before heartbeats are missing, gateways report a host
// whose executors they have lost, and the fleet checks it.
//
//	worker, gateway ── join, enter ──> Fleet ── starts ──> Host, Member ── hold ──> there
//	gateway ── doubt ──────────────>    │  ── check ─> worker
//	service ── reserve, watch ──────>    │  <── lost ──────────┘
//	service <── FleetChange ──────────────────┘
//
// # Gateways
//
// gateways.go gives gateways their parts of a change: each runs its own on a task
// queue of its own, all of them at once. One that is gone does not hold a change up for
// longer than its heartbeat timeout, and not at all once the fleet has reported it gone or
// replaced: should it come back, it joins again and receives what serves.
//
// # Provisioning
//
// provisioning.go has providers create the functions that a plan calls before
// traffic moves to it, and delete those that are not called any more.
//
// # Rescheduling
//
// Reschedule carries out one change of a service, from the plan that serves to
// another, as a workflow of its own: it chooses a plan, places executors and reserves their
// devices, starts them, moves traffic, and lets the old ones go.
//
// # Running
//
// Executor keeps executors running: the workflow `executor` owns one, from its start
// on a device of a host until it is drained, cancelled, or cannot run there any more. What
// computes is an activity of the host, which goes on while the server is away.
//
// # Status
//
// Status reports how a service is, for people and programs: what serves, what is requested
// or tried, what was decided and why. It is data that the workflow of a service answers
// queries with; Describe writes it for `harpagon status`, and the UI shows the same.
package workflows
