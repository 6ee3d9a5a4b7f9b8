// Package dispatcher decides which items run when, in which batch and on which
// executor. It sees names, sizes and times, never a tensor.
//
//	gateway ── Arrive, Cancel, Requeue ──> station ── Step ──> policy
//	   ^                                      │
//	   └──────── Start, Drop ─────────────────┘ <── Register, Done, Ready, Lost ── executors
//
// A Dispatcher has a station for every module that is served. The station is the
// driver of a dispatch.Policy: it holds the waiting items and the lanes of the
// executors, one for every batch that an executor may run at a time, and executes the policy's
// decisions. The station decides nothing itself.
//
// # Who holds what
//
// A gateway holds requests with their tensors and answers each once. Request and Item are what
// the dispatcher needs of them; a gateway in the same process embeds both in its own, so that
// an item costs no memory here. When items start, every gateway that holds some of them is
// called by Gateway.Start, and sends their tensors to the executor.
//
// # Generations
//
// Compile makes a Generation of a deployment, with a policy for every module.
// Install puts it in charge: a station whose module stays the same (see placement.Identity)
// keeps its waiting items and takes on the new policy and executors; a station of a
// module that changed lives on for as long as items of older generations come.
//
// # Times
//
// An item arrives virtually at the request's arrival plus the budgets of the modules
// above on the longest path, and its deadline is the request's less what the modules
// below still need at the least. Where a batch starts, the time that its items have
// waited is split: until the batch was complete they waited for others, after that they
// queued for an executor.
//
// # Admission
//
// A request is refused when it comes if the work before it leaves no time for it
// (package scheduler/dispatch/admission; admission.go drives it). Every generation is
// a service of its own there; items are counted as they wait, run and come back.
//
// # Devices
//
// Executors that share a device are arbitrated, so that a batch which is not due starts only
// while no other executor needs the device (device.go). Policy tc requests a device by an
// action and receives the answer as an event.
//
// # Failures
//
// The items of a batch whose executor is lost are queued once more; the second time
// they are dropped, since a request that crashes engines must not travel from one to
// the next. The executors of a host that dies count as one loss. An executor that a
// gateway lacks, whose stream there has broken or has not come yet, gets no batch for a
// moment, and the items are queued as if they had never been sent. While an executor loads its engine again its lane is away: it gets no
// batches, and others take its work.
//
// # Batches ahead
//
// An executor that has its device for itself may send Soon when a batch is about to end. Its
// lane is then free for the policy, as if the batch had ended, and the next one travels while
// the engine finishes. Where others use the device nothing is sent ahead: what is due first
// would be overtaken.
//
// # Functions
//
// A function's executors are calls to a provider, one executor a group (calls.go). As
// many calls run at once as the provider allows.
//
// # Cores
//
// Stations have locks of their own, and admission control has one for each set of services
// that have devices in common, so that several cores decide for several modules at once
// (docs/results/dispatcher.md). One station is decided by one core at a time; clusters are divided by
// what that can do.
//
// # Locks
//
// Order: Dispatcher.mu, station.mu, Executor.mu, device.mu and account.mu. Gateways are called
// only after a station's lock has been released; they must not block.
//
// # Numbers of remote stations
//
// remoteIDs numbers the stations of a gateway for a dispatcher elsewhere.
//
// # Policies
//
// buildPolicies makes the dispatch policies of a deployment's modules, from the times of the
// plan and the limits of the dispatcher's Options.
//
// # Counts
//
// ServiceStats and moduleStats count what a gateway sees: requests by outcome and latency, items
// and batches of modules, and how long batches take. Rates and latencies look back
// on the last seconds, a figure for each (service_stats.go); totals count from the beginning.
//
// # Stuck batches
//
// A stuckWatch finds batches that take far longer than their profile
// (pipelines.SlowestRuns).
//
// The executor of such a batch will give its engine up; until then nothing that shares the
// device gets on. From the first deadline on that the batch misses, policies do without the
// executors of the device, so that their items go to others, until the batch has ended.
package dispatcher
