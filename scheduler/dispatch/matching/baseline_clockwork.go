package matching

import (
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// clockwork distributes after Clockwork, as the Kairos paper reads it: a controller knows when
// every instance will have served its queue, and gives a new query at once to the queue of an
// baselineInstance where it meets its objective. Of several the paper leaves the choice open; here it is
// the one that finishes the query first. A query that meets its objective nowhere is dropped.
// The queue of an instance that is gone is distributed anew.
type clockwork struct {
	floor
	free    []dispatch.Time // by executor: when its queue will be served
	queues  [][]dispatch.Request
	waiting int
}

func (d *clockwork) Name() string     { return Clockwork }
func (d *clockwork) Len() int         { return d.waiting }
func (d *clockwork) Describe() string { return fmt.Sprintf("clockwork: %d waiting\n", d.waiting) }

func (d *clockwork) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.begin(ev)
	switch ev.Kind {
	case dispatch.Arrive:
		return d.arrive(now, d.come(ev.Request), out)
	case dispatch.Cancel:
		d.cancel(ev.Request.ID)
		return out
	}
	d.executors(ev)
	for len(d.queues) < len(d.instances) {
		d.queues, d.free = append(d.queues, nil), append(d.free, 0)
	}
	id := int(ev.Executor)
	if id < 0 || id >= len(d.queues) {
		return out
	}
	switch ev.Kind {
	case dispatch.ExecutorFree:
		out = d.next(id, out)
	case dispatch.ExecutorGone:
		left := d.queues[id]
		d.queues[id], d.free[id], d.waiting = nil, 0, d.waiting-len(left)
		for _, r := range left {
			out = d.arrive(now, r, out)
		}
	}
	return out
}

func (d *clockwork) arrive(now dispatch.Time, r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	best, first := -1, r.Deadline
	for id := range d.instances {
		if !d.instances[id].up {
			continue
		}
		if done := max(now, d.free[id]) + d.takes(d.instances[id].group, r.Size); done < first || done == first && best < 0 {
			best, first = id, done
		}
	}
	if best < 0 {
		return append(out, drop(r))
	}
	d.free[best] = first
	d.queues[best] = append(d.queues[best], r)
	d.waiting++
	return d.next(best, out)
}

// cancel takes a query out of its queue. The time that was kept for it stays kept: who waits
// behind it is early.
func (d *clockwork) cancel(id dispatch.RequestID) {
	for i, q := range d.queues {
		d.queues[i] = without(q, id)
		d.waiting -= len(q) - len(d.queues[i])
	}
}

// next starts the head of an instance's queue, if it idles.
func (d *clockwork) next(id int, out []dispatch.Action) []dispatch.Action {
	if x := d.instances[id]; x.busy || !x.up || len(d.queues[id]) == 0 {
		return out
	}
	r := d.queues[id][0]
	d.queues[id] = slices.Delete(d.queues[id], 0, 1)
	d.waiting--
	return d.start(id, r, out)
}
