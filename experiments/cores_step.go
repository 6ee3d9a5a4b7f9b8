package experiments

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// Step drives the policy of the setting from this goroutine alone.
func Step(s CoresSetting) (CoresResult, error) {
	if err := s.check(); err != nil {
		return CoresResult{}, err
	}
	p, err := shared.New(s.Policy, s.pool())
	if err != nil {
		return CoresResult{}, err
	}
	d := &direct{policy: p, arrivals: newArrivals(s), wheel: newWheel[dispatch.ExecutorID](s.Executors), timer: never, took: shared.Linear(each, fixed, largest)}
	d.free = func(id dispatch.ExecutorID) { d.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id}) }
	for id := range s.Executors {
		d.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id)})
	}
	d.play(s.early())
	d.served, d.batches = 0, 0
	r := measureRun(func() { d.play(s.Requests) })
	r.Requests, r.Served, r.Batches = s.Requests, d.served, d.batches
	return r, nil
}

const never = dispatch.Time(1<<63 - 1)

// direct is a policy with all that happens to it.
type direct struct {
	policy   dispatch.Policy
	arrivals *coresArrivals
	wheel    wheel[dispatch.ExecutorID]
	free     func(dispatch.ExecutorID)
	timer    dispatch.Time
	took     []dispatch.Time
	actions  []dispatch.Action
	served   int
	batches  int
}

func (d *direct) play(n int) {
	for range n {
		r := d.arrivals.next()
		if d.timer <= r.Arrival {
			d.timer = never
			d.step(dispatch.Event{Kind: dispatch.Timer})
		}
		d.wheel.ended(r.Arrival, d.free)
		d.step(dispatch.Event{Kind: dispatch.Arrive, Request: r})
	}
}

func (d *direct) step(ev dispatch.Event) {
	now := d.arrivals.now
	d.actions = d.policy.Step(now, ev, d.actions[:0])
	for i := range d.actions {
		switch a := &d.actions[i]; a.Act {
		case dispatch.SetTimer:
			d.timer = a.At
		case dispatch.Start:
			d.wheel.add(a.Executor, now+d.took[len(a.Batch)-1])
			d.batches++
			d.served += len(a.Batch)
		}
	}
}
