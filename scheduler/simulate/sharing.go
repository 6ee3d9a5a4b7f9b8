package simulate

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// arbiter decides over the device of an executor, who is one of its users.
func (e *engine) arbiter(station int32, id dispatch.ExecutorID) (a *tc.Arbiter, user int) {
	l := &e.stations[station].lanes[id]
	return &e.devices[l.device].arbiter, l.user
}

// ask answers a policy that asks for a device.
func (e *engine) ask(station int32, a *dispatch.Action) dispatch.Event {
	arbiter, user := e.arbiter(station, a.Executor)
	ok, again := arbiter.Ask(user, e.now, a.At, a.Due)
	if ok {
		return dispatch.Event{Kind: dispatch.Granted, Executor: a.Executor}
	}
	return dispatch.Event{Kind: dispatch.Refused, Executor: a.Executor, At: again}
}

// offer lets those that were refused a shared device ask again, now that a batch
// has left it.
func (e *engine) offer(at int32) {
	for user := e.devices[at].arbiter.Next(); user >= 0; user = e.devices[at].arbiter.Next() {
		p := e.devices[at].lanes[user]
		e.step(p.station, dispatch.Event{Kind: dispatch.DeviceIdle, Executor: dispatch.ExecutorID(p.lane)})
	}
}
