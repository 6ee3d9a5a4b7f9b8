package matching

import (
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// floor is what the distributors have in common: they know the latency of every query on every
// type, and which instances idle.
type floor struct {
	slo       dispatch.Time
	base      int32
	types     []pipelines.Latency  `record:"-"`
	latency   [][]dispatch.Time    `record:"-"` // by type and size
	instances []baselineInstance   // by executor
	up        []int                // instances by type
	batch     []dispatch.RequestID `record:"-"`
	timer     dispatch.Time        // asked for and not yet come
}

// baselineInstance is one executor.
type baselineInstance struct {
	group int32
	up    bool
	busy  bool
}

func newFloor(o BaselineOptions) floor {
	f := floor{slo: o.SLO, base: o.Base, up: make([]int, len(o.Types)), timer: dispatch.Never}
	for _, t := range o.Types {
		table := make([]dispatch.Time, o.Largest+1)
		for size := range table {
			table[size] = t.Latency.At(size)
		}
		f.types, f.latency = append(f.types, t.Latency), append(f.latency, table)
	}
	return f
}

// takes is how long a query takes on a type.
func (f *floor) takes(group, size int32) dispatch.Time {
	if table := f.latency[group]; int(size) < len(table) {
		return table[size]
	}
	return f.types[group].At(int(size))
}

// begin is the start of every step.
func (f *floor) begin(ev dispatch.Event) {
	f.batch = f.batch[:0]
	if ev.Kind == dispatch.Timer {
		f.timer = dispatch.Never
	}
}

// come completes a query that arrived.
func (f *floor) come(r dispatch.Request) dispatch.Request {
	if r.Deadline == 0 {
		r.Deadline = r.Arrival + f.slo
	}
	r.Size = max(1, r.Size)
	return r
}

// executors takes in an event about an executor.
func (f *floor) executors(ev dispatch.Event) {
	id := int(ev.Executor)
	if ev.Kind == dispatch.ExecutorUp && id >= 0 && ev.Group >= 0 && int(ev.Group) < len(f.up) {
		for id >= len(f.instances) {
			f.instances = append(f.instances, baselineInstance{})
		}
		if x := &f.instances[id]; !x.up {
			*x = baselineInstance{group: ev.Group, up: true}
			f.up[ev.Group]++
		}
		return
	}
	if id < 0 || id >= len(f.instances) || !f.instances[id].up {
		return
	}
	switch x := &f.instances[id]; ev.Kind {
	case dispatch.ExecutorFree:
		x.busy = false
	case dispatch.ExecutorGone:
		f.up[x.group]--
		*x = baselineInstance{}
	}
}

// idle is the first idle instance of the types wanted; -1 where none idles.
func (f *floor) idle(wanted func(group int32) bool) int {
	for id := range f.instances {
		if x := &f.instances[id]; x.up && !x.busy && wanted(x.group) {
			return id
		}
	}
	return -1
}

func (f *floor) start(id int, r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	f.instances[id].busy = true
	at := len(f.batch)
	f.batch = append(f.batch, r.ID)
	return append(out, dispatch.Action{
		Act: dispatch.Start, Executor: dispatch.ExecutorID(id), Group: f.instances[id].group, Batch: f.batch[at : at+1 : at+1],
	})
}

// hopeless says whether the query would be late even if it started now on the fastest of the
// types that may serve it. Where none of them is up, one may still come.
func (f *floor) hopeless(now dispatch.Time, r dispatch.Request, may func(group int32) bool) bool {
	some := false
	for g := range f.latency {
		if f.up[g] == 0 || !may(int32(g)) {
			continue
		}
		if some = true; now+f.takes(int32(g), r.Size) <= r.Deadline {
			return false
		}
	}
	return some || now > r.Deadline
}

// serve starts and drops from the head of a queue, as far as instances idle. Instances of the
// base, where they may serve, go first.
func (f *floor) serve(now dispatch.Time, queue []dispatch.Request, may func(int32) bool, out []dispatch.Action) ([]dispatch.Request, []dispatch.Action) {
	done := 0
	for ; done < len(queue); done++ {
		r := queue[done]
		if f.hopeless(now, r, may) {
			out = append(out, drop(r))
			continue
		}
		id := f.idle(func(g int32) bool { return g == f.base && may(g) })
		if id < 0 {
			id = f.idle(may)
		}
		if id < 0 {
			break
		}
		out = f.start(id, r, out)
	}
	return slices.Delete(queue, 0, done), out
}

// wake asks for a timer after the deadline of the head of the queues, so that a query is answered
// for even where no instance ever frees.
func (f *floor) wake(now dispatch.Time, out []dispatch.Action, queues ...[]dispatch.Request) []dispatch.Action {
	at := dispatch.Never
	for _, q := range queues {
		if len(q) > 0 {
			at = min(at, q[0].Deadline+1)
		}
	}
	if at = max(at, now); at == dispatch.Never || at == f.timer {
		return out
	}
	f.timer = at
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: at})
}

func drop(r dispatch.Request) dispatch.Action {
	return dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late}
}

// without is the queue without a query that is no longer wanted.
func without(queue []dispatch.Request, id dispatch.RequestID) []dispatch.Request {
	return slices.DeleteFunc(queue, func(r dispatch.Request) bool { return r.ID == id })
}

func anyGroup(int32) bool { return true }
