// Package activities is what Harpagon's workflows do: every step that touches
// the world, or that shall stand in the history as a decision of its own.
//
// The activities come in four sets, each served by one kind of worker:
//
//   - Planning decides, for services of every kind: Plan, Place, Reconcile. They
//     only call the pure packages below scheduler and may run anywhere.
//   - Fleet asks the fleet workflow for devices and reserves them.
//   - Gateway moves traffic: Prepare, Install, Release, Remove. They run in
//     the process of the gateway, on the task queue GatewayQueue.
//   - Host works with devices: Identify, ProfileModule, RunExecutor, HoldHost.
//     They run on the host itself, on the task queue HostQueue(name).
//
// RunExecutor and HoldHost run for as long as the executor or the host lives.
// Their heartbeats come from a goroutine beside the work. A worker that cannot
// reach Temporal never hears that its activity has timed out and runs
// elsewhere, so each of them holds a lease: when no heartbeat got through for
// most of the heartbeat timeout, it stops by itself (see lease).
package activities
