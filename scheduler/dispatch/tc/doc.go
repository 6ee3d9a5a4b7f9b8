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
// A group that shares its device with groups of other policies must know more than its own
// queue before it starts a batch that is not due. The policy asks with the action Ask, the driver
// passes that on to the Arbiter of the device and reports its answer as the event Granted or
// Refused. In the other direction the policy tells with Need when its plan may next need the
// device. The policy goes on with other events if the answer takes time, and gives back with
// Release what it cannot use any more.
package tc
