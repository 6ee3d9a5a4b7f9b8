package trial

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// floor is what the baselines have in common: they know the latency of every
// query on every type, and which instances idle.
type floor struct {
	pool    Pool
	latency [][]time.Duration
	group   []int32 // by executor; -1 where it is not up
	busy    []bool
	batch   []dispatch.RequestID
}

func newFloor(p Pool, largest int) floor { return floor{pool: p, latency: p.table(int32(largest))} }

// executors takes in an event about an executor.
func (f *floor) executors(ev dispatch.Event) {
	id := int(ev.Executor)
	switch ev.Kind {
	case dispatch.ExecutorUp:
		for id >= len(f.group) {
			f.group, f.busy = append(f.group, -1), append(f.busy, false)
		}
		f.group[id], f.busy[id] = ev.Group, false
	case dispatch.ExecutorFree:
		f.busy[id] = false
	case dispatch.ExecutorGone:
		f.group[id] = -1
	}
}

// idle is an idle instance, of the base where wanted and none other idles
// before it; -1 where none idles.
func (f *floor) idle(wanted func(group int32) bool) int {
	for id, g := range f.group {
		if g >= 0 && !f.busy[id] && wanted(g) {
			return id
		}
	}
	return -1
}

func (f *floor) start(id int, r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	f.busy[id] = true
	at := len(f.batch)
	f.batch = append(f.batch, r.ID)
	return append(out, dispatch.Action{
		Act: dispatch.Start, Executor: dispatch.ExecutorID(id), Group: f.group[id], Batch: f.batch[at : at+1 : at+1],
	})
}

// hopeless says whether the query would be late even if it started now on the
// fastest of the types that may serve it.
func (f *floor) hopeless(now time.Duration, r dispatch.Request, may func(group int32) bool) bool {
	for g := range f.latency {
		if f.pool.Counts[g] > 0 && may(int32(g)) && now+f.latency[g][r.Size] <= r.Deadline {
			return false
		}
	}
	return true
}

func drop(r dispatch.Request) dispatch.Action {
	return dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late}
}

func anyGroup(int32) bool { return true }

// NewRibbon distributes as Ribbon does: first come, first served, on an
// instance of the base where one idles, else on any other. It does not ask
// whether a query meets its objective there.
func NewRibbon(p Pool, largest int) dispatch.Policy {
	return &ribbon{floor: newFloor(p, largest)}
}

type ribbon struct {
	floor
	queue []dispatch.Request
}

func (d *ribbon) Name() string     { return "ribbon" }
func (d *ribbon) Len() int         { return len(d.queue) }
func (d *ribbon) Describe() string { return fmt.Sprintf("ribbon: %d waiting\n", len(d.queue)) }

func (d *ribbon) Step(now time.Duration, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.batch = d.batch[:0]
	if ev.Kind == dispatch.Arrive {
		d.queue = append(d.queue, ev.Request)
	} else {
		d.executors(ev)
	}
	for len(d.queue) > 0 {
		r := d.queue[0]
		if d.hopeless(now, r, anyGroup) {
			out = append(out, drop(r))
		} else {
			id := d.idle(func(g int32) bool { return int(g) == d.pool.Base })
			if id < 0 {
				id = d.idle(anyGroup)
			}
			if id < 0 {
				return out
			}
			out = d.start(id, r, out)
		}
		d.queue = d.queue[1:]
	}
	return out
}

// NewThreshold distributes as DeepRecSys does: queries larger than the
// threshold go to the base, others to the other types, each side first come,
// first served. A pool of one side serves all queries there.
func NewThreshold(p Pool, largest, threshold int) dispatch.Policy {
	d := &byThreshold{floor: newFloor(p, largest), threshold: int32(threshold)}
	if p.Instances() == p.Counts[p.Base] {
		d.threshold = -1
	}
	return d
}

type byThreshold struct {
	floor
	threshold int32
	queues    [2][]dispatch.Request // of the base, of the others
}

func (d *byThreshold) Name() string { return "threshold" }
func (d *byThreshold) Len() int     { return len(d.queues[0]) + len(d.queues[1]) }
func (d *byThreshold) Describe() string {
	return fmt.Sprintf("threshold %d: %d and %d waiting\n", d.threshold, len(d.queues[0]), len(d.queues[1]))
}

func (d *byThreshold) Step(now time.Duration, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.batch = d.batch[:0]
	if ev.Kind == dispatch.Arrive {
		side := 1
		if ev.Request.Size > d.threshold {
			side = 0
		}
		d.queues[side] = append(d.queues[side], ev.Request)
	} else {
		d.executors(ev)
	}
	for side := range d.queues {
		may := func(g int32) bool { return (int(g) == d.pool.Base) == (side == 0) }
		out = d.serve(now, &d.queues[side], may, out)
	}
	return out
}

func (d *byThreshold) serve(now time.Duration, queue *[]dispatch.Request, may func(int32) bool, out []dispatch.Action) []dispatch.Action {
	for len(*queue) > 0 {
		r := (*queue)[0]
		if d.hopeless(now, r, may) {
			out = append(out, drop(r))
		} else {
			id := d.idle(may)
			if id < 0 {
				return out
			}
			out = d.start(id, r, out)
		}
		*queue = (*queue)[1:]
	}
	return out
}
