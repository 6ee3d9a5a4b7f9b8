// Package activities is what Harpagon's workflows do: every step that touches
// the world, or that shall stand in the history as a decision of its own.
//
// The activities come in four sets, each served by one kind of worker:
//
//   - Planning decides, for services of every kind: Plan, Place, Reconcile. They
//     only call the pure packages below scheduler and may run anywhere.
//   - Fleet queries the fleet workflow for devices and reserves them.
//   - GatewayActivities move traffic: Prepare, Install, Release, Remove, Announce,
//     HoldMember. They run in every gateway, each on a task queue of its own.
//   - Host works with devices: Identify, ProfileModule, RunExecutor, HoldHost,
//     UseGateways.
//     They run on the host itself, on the task queue HostQueue(name).
//
// RunExecutor, HoldHost and HoldMember run for as long as what they hold lives.
// Their heartbeats come from a goroutine beside the work. A worker that cannot
// reach Temporal goes on: what serves does not depend on the control plane. When
// the server is back it has timed the attempts out, and the next ones take over
// what runs as it is (see run in host.go). What is stale by then is refused by its
// receivers: an executor that no deployment names gets no batches, and one that no attempt
// takes over stops by itself.
package activities
