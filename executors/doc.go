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
// computed again request by request, so that only those fail that spoil it. When
// the engine is lost, the executor says so with the result and takes no batch in
// that place until it has loaded the engine anew and said Ready.
//
// An engine that has its device for itself and can take a batch while it computes
// another (Stager) need not wait for the way of the next one: shortly before the
// end of a batch the executor says Soon, and what the gateway sends then is with
// the engine when that is free (ahead.go).
//
// Several executors may share a device. Their batches then take turns, the one
// that is due first goes first, and a batch that has begun is never
// interrupted: this is the non-preemptive earliest-deadline-first order that
// the scheduler's demand test assumes.
//
// Host.Measure runs a module by itself and yields the profile points that the
// planner works with; package rounds says how.
//
// Engines are values that the program passes in; this package knows none of
// them by import. The sub-packages hold them: functions (processing steps in
// Go), emulated (sleeps for profiled durations), gorgonia with child (networks
// in a process of their own), remote (models on other servers), process
// (commands that serve a model), and reference (slow and plain, for checks).
package executors
