package trial

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// NewClockwork distributes after Clockwork, as the Kairos paper reads it: a
// controller knows when every instance will have served its queue, and gives a
// new query at once to the queue of an instance where it meets its objective.
// Of several the paper leaves the choice open; here it is the one that finishes
// the query first. A query that meets its objective nowhere is dropped.
func NewClockwork(p Pool, largest int) dispatch.Policy {
	return &clockwork{floor: newFloor(p, largest)}
}

type clockwork struct {
	floor
	free    []time.Duration // by executor: when its queue will be served
	queues  [][]dispatch.Request
	waiting int
}

func (d *clockwork) Name() string     { return "clockwork" }
func (d *clockwork) Len() int         { return d.waiting }
func (d *clockwork) Describe() string { return fmt.Sprintf("clockwork: %d waiting\n", d.waiting) }

func (d *clockwork) Step(now time.Duration, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.batch = d.batch[:0]
	if ev.Kind == dispatch.Arrive {
		return d.arrive(now, ev.Request, out)
	}
	d.executors(ev)
	for len(d.queues) < len(d.group) {
		d.queues, d.free = append(d.queues, nil), append(d.free, 0)
	}
	if ev.Kind == dispatch.ExecutorFree {
		out = d.next(int(ev.Executor), out)
	}
	return out
}

func (d *clockwork) arrive(now time.Duration, r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	best, first := -1, r.Deadline
	for id, g := range d.group {
		if g < 0 {
			continue
		}
		if done := max(now, d.free[id]) + d.latency[g][r.Size]; done < first || done == first && best < 0 {
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

// next starts the head of an instance's queue, if it idles.
func (d *clockwork) next(id int, out []dispatch.Action) []dispatch.Action {
	if d.busy[id] || d.group[id] < 0 || len(d.queues[id]) == 0 {
		return out
	}
	r := d.queues[id][0]
	d.queues[id] = d.queues[id][1:]
	d.waiting--
	return d.start(id, r, out)
}
