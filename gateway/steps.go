package gateway

import (
	"slices"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Step is the run of one module for one frame of a request, for traces. Of a step that
// was not completed only Module and Begin are known.
type Step struct {
	Module    string
	Begin     dispatch.Time // the end of what it waited for, or the arrival
	Completed bool
	Critical  bool              // on the request's critical path; see Stages
	Batch     *dispatcher.Batch // that it ran in, where that is known
	Size      int               // of that batch
	Attempts  int               // how often it was queued anew after it may have reached an engine
	dispatcher.Times
}

// Steps are what has run for a request that is over, and what was still to run, in the
// order in which they became ready.
func (r *Request) Steps() []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	var steps []Step
	critical := r.last
	for it := r.items; it != nil; it = it.next {
		s := Step{Module: it.Node.Name, Begin: r.Arrival, Completed: it.completed}
		if it.cause != nil {
			s.Begin = it.cause.Ended
		}
		if it.completed { // before that, its times belong to its station
			s.Batch, s.Size, s.Attempts, s.Times = it.ran, int(it.Batch), int(it.Attempts), it.Times
		}
		steps = append(steps, s)
		if it == critical {
			steps[len(steps)-1].Critical, critical = true, it.cause
		}
	}
	slices.Reverse(steps)
	return steps
}
