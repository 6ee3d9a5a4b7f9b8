// Package executors runs modules on devices.
//
// An Engine loads a model and yields an Instance, which computes batches. A
// Host owns the devices and the engines of one machine. For every
// placement.Slot that the scheduler gives to the machine, Host.RunExecutor
// loads the module, attaches to the gateway and answers batches until one side
// drains:
//
//	load ── dial ── Hello ── ┌ Batch ── wait for the device ── run ── Result ┐ ── Drain ── close
//	  │       └── backoff ◄──┤ stream broken                                 │
//	  └────── reload ◄───────┤ engine unavailable                            │
//	                         └───────────────────────────────────────────────┘
//
// A batch that the engine refuses, because of one request or another, is
// computed again request by request, so that only those at fault fail. When the engine is lost,
// the executor reports that with the result and takes no batch in that lane until it has loaded
// the engine again and sent Ready.
//
// An engine that has its device for itself and can take a batch while it computes
// another (stager) need not wait for the next one to travel: shortly before the end of a batch
// the executor sends Soon, and the batch that the gateway sends then has arrived when the
// engine is free (lanes.go).
//
// Several executors may share a device. Their batches then take turns, the one
// that is due first goes first, and a batch that has begun is never
// interrupted: this is the non-preemptive earliest-deadline-first order that
// the scheduler's demand test assumes.
//
// Host.Measure runs a module by itself and yields the profile points that the planner works
// with; see Measuring below.
//
// Engines are values that the program passes in; this package imports none of them. The
// sub-packages hold them: steps (processing steps in Go), emulated (sleeps for profiled
// durations), gorgonia with child (networks in a process of their own), remote (models on other
// servers), process (commands that serve a model), and reference (slow and plain, for checks).
//
// # Devices
//
// A deviceQueue gives a device to its users one after the other, the earliest due time first,
// and records how long batches take there, which sets the lead of Soon.
//
// # Measuring
//
// A measurement decides which runs of a module follow, and what its profile points are. It sees
// batch sizes and durations only; Host.Measure loads and runs the instances.
//
// For one number of batches at a time, a measurement loads instances for one batch size after
// the other, to read their memory, and then measures all sizes on those of the largest, in
// rounds: every size has its turn in each, so that what disturbs the machine for a while
// disturbs all sizes alike. It goes on until every size has enough runs (RoundLimits) and half
// of the rounds were calm, or patience ends:
//
//	load 1 ── load 4 ── load 16 ── round: 1 4 16 ── round: 16 4 1 ── ... ── points
//
// An engine that LoadsOnce is loaded for the largest only, and reports the memory of all. An instance that is a Keeper
// is not closed in the end: the executor that is planned from its measurement may reuse it.
//
// Durations are taken from the calm rounds, or the calmest half; spreads from all.
// What is known at any time is Measured: reported after every round, and enough to resume an
// interrupted measurement from.
//
// # What modules are sent
//
// feedsOf reports what a pipeline sends to a module, and makes such requests for
// what has to be tried without real ones: measuring, warming up, loads.
//
// # Warming up
//
// WarmUp runs models before requests do, for every batch size that may be sent.
//
// What an engine prepares for each size when it first runs one, as the choice of kernels on a GPU,
// takes up to seconds, in which requests are lost. Batches that are not full have sizes that no
// plan names; so these are run, too, if the engine turns out to prepare for each.
//
// # Round trips
//
// A RoundTrip puts what computes queries at the far end of a stream, as an instance of
// a pool is for its gateway: a query is cut into its items there, sent, computed, sent
// back and put together. Durations that are measured so include the transfers, which the
// objective of a query covers.
//
// # Other load
//
// ReadProcessors reports how much of the machine's processors others use: work that
// is neither this process nor one that it has started.
//
// Two readings make a ProcessorUse:
//
//	before, err := executors.ReadProcessors()
//	... measure something ...
//	after, err := executors.ReadProcessors()
//	use := after.Since(before)
//	fmt.Println(use.Describe()) // others used 0.9 of 2 cores meanwhile
//
// On Linux the source is /proc: the processor time of all (/proc/stat, time that
// a hypervisor gave away counts as used) less that of this process and its
// descendants (/proc/PID/stat). The kernel counts in ticks of 10 ms, so that a ProcessorUse of
// much less than a second is inaccurate. Elsewhere ReadProcessors returns ErrUseUnknown.
//
// # Memory
//
// ReserveMemory bounds what batches allocate on a host, such as pictures: they reserve it
// first.
package executors
