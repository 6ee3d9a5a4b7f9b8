// Package tc is the batch-aware dispatch of the Harpagon paper (section III-B): each module has
// groups of executors from its plan, and batches of the groups' sizes are cut from the stream of
// the whole module.
//
//	tc.go       the policy: events in, actions out; which batch a request joins
//	group.go    the batches of one group, released once a period, due one window later; its queue
//	bursts.go   which group takes which items of a burst
//	early.go    starting a batch before it is due, where the plan's promise bears it
//	free_starts.go  where nothing is promised to the single request: starting whatever
//	                waits; idle executors take what waits in other groups
//	arbiter.go  who may use a device that several policies share; drivers hold it
//
// # Shared devices
//
// A group that shares its device with groups of other policies must not start a batch that
// is not due by its own queue alone. The policy returns the action Ask, the driver passes
// it on to the Arbiter of the device and reports its answer as the event Granted or
// Refused. With Need the policy announces when its plan may next need the device, and with
// Release it gives back a grant that it cannot use. The answer may come late: other events
// are handled meanwhile.
package tc
