package roundrobin

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// group is what the executors of a group have in common.
type group struct {
	batch     int
	collect   dispatch.Time   // how long the first request of a batch waits for others
	durations []dispatch.Time // by size, not falling
}

func (g *group) full() dispatch.Time { return g.durations[g.batch-1] }

// executor is one machine and what it has collected.
type executor struct {
	up, busy bool
	group    int32
	queue    []dispatch.Request // in the order in which they were given
}

// ready is when the executor should start what it has collected: at once where that is a batch;
// else when its first request has waited long enough, or waiting longer would miss a deadline.
func (e *executor) ready(g *group) dispatch.Time {
	if len(e.queue) >= g.batch {
		return 0
	}
	at := e.queue[0].Arrival + g.collect
	for i := range e.queue {
		if d := e.queue[i].Deadline; d != 0 {
			at = min(at, d-g.durations[len(e.queue)-1])
		}
	}
	return at
}

// hopeless says whether the request cannot be in time even in a batch of its own that starts now.
func (g *group) hopeless(now dispatch.Time, r *dispatch.Request) bool {
	return r.Deadline != 0 && r.Deadline < now+g.durations[0]
}

// fitting is how many of the first requests can start now as one batch, all in time.
func (e *executor) fitting(now dispatch.Time, g *group) int {
	due := func(n int) bool {
		return !slices.ContainsFunc(e.queue[:n], func(r dispatch.Request) bool { return r.Deadline != 0 && r.Deadline < now+g.durations[n-1] })
	}
	n := min(len(e.queue), g.batch)
	for n > 0 && !due(n) {
		n--
	}
	return n
}

// pop takes the first n out.
func (e *executor) pop(n int) { e.queue = slices.Delete(e.queue, 0, n) }
