package shared

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Sharer is a pool policy that can tell what it lacks and what it can do
// without, so that several of them, each over some of the models and some of
// the executors, can exchange executors: ExecutorGone takes one from a policy,
// ExecutorUp gives it to another. adaptive, deferred and eager are sharers.
type Sharer interface {
	dispatch.Policy

	// Demand says whether a batch would start now if there were one more
	// executor, and the last instant at which the most urgent such batch may
	// start.
	Demand() (last dispatch.Time, ok bool)

	// Spare names an executor, and its group, that nothing would start on now.
	Spare() (id dispatch.ExecutorID, group int32, ok bool)
}

// Demand is that of the most urgent batch that is ready.
func (p *deferred) Demand() (last dispatch.Time, ok bool) { return p.ready.Next(), p.ready.Len() > 0 }

// Demand is that of the batch that would take the next executor.
func (p *adaptive) Demand() (last dispatch.Time, ok bool) {
	switch {
	case p.choose() < 0:
		return never, false
	case p.ready.Len() > 0:
		return p.ready.Next(), true
	}
	return p.held.Next(), true
}

// Spare is an idle executor: after a step, whatever was to start has started.
func (p *pool) Spare() (id dispatch.ExecutorID, group int32, ok bool) {
	id = p.fleet.Pick()
	if id < 0 {
		return id, 0, false
	}
	return id, p.fleet.Execs[id].Group, true
}
