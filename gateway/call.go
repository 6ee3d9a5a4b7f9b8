package gateway

import (
	"slices"

	"github.com/harpagon/harpagon/executors/invoke"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// The executor of a group of a function is not attached: every batch is a call of
// its own to the provider, which runs as many at once as it allows. It has one lane.
// Policy grouped is told that the lane is free again as soon as a batch has left,
// and that it is gone while as many calls run as the provider allows.

// caller makes the executor of a group.
func (g *Gateway) caller(f *function, group int, name string, t *invoke.Target) *executor {
	e := &executor{gateway: g, function: f, group: group, target: t}
	e.hello = attach.Hello{Executor: t.URL, Pipeline: f.deployment.Function.Name, Module: name, Hardware: name, Concurrency: 1}
	e.settle(new(device)) // it shares none
	return e
}

// limit is how many calls of the function may run at once.
func (f *function) limit() int { return f.deployment.Provider.CallConcurrency() }

// startCalls makes the calls of a batch that a lane has started. Requests whose
// tensors do not fit together go in calls of their own. The station's lock is held.
func (s *station) startCalls(f *flight, fx []effect) []effect {
	l := &s.lanes[f.lane]
	l.idle = false
	first := len(fx)
	for _, it := range f.items {
		r := it.req.function
		r.generation = l.exec.function.deployment.Generation
		i := slices.IndexFunc(fx[first:], func(e effect) bool { return alike(e.flight.items[0].req.function.inputs, r.inputs) })
		if i < 0 {
			i = len(fx) - first
			fx = append(fx, effect{flight: &flight{station: s, exec: l.exec, lane: f.lane, at: f.at}})
		}
		c := fx[first+i].flight
		c.items = append(c.items, it)
	}
	for _, e := range fx[first:] {
		for _, it := range e.flight.items {
			it.batch = int32(len(e.flight.items))
		}
	}
	n := len(fx) - first
	s.running += n
	s.gateway.calls.Add(n)
	return fx
}

// alike says whether two requests can go in one call.
func alike(a, b []wire.NamedTensor) bool {
	return slices.EqualFunc(a, b, func(x, y wire.NamedTensor) bool {
		return x.Name == y.Name && x.Datatype == y.Datatype && slices.Equal(x.Shape, y.Shape)
	})
}

// offerLanes tells the policy which lanes may start a call: all while fewer run than
// the provider allows, none once as many do. The station's lock is held.
func (s *station) offerLanes(now dispatch.Time, fx []effect) []effect {
	for i := 0; i < len(s.lanes) && !s.stopped; i++ {
		l := &s.lanes[i]
		full := s.running >= s.function.limit()
		if l.idle == !full {
			continue
		}
		ev := dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(i), Group: l.group}
		switch {
		case full:
			ev.Kind = dispatch.ExecutorGone
		case !l.known:
			ev.Kind = dispatch.ExecutorUp
		}
		l.idle, l.known = !full, !full
		fx = s.decide(now, ev, fx)
		i = -1 // calls may have started: look at all lanes again
	}
	return fx
}

// call sends a batch to the provider and waits for the answers. No lock may be held.
func (e *executor) call(f *flight) {
	defer e.gateway.calls.Done()
	e.gateway.batchBegin(f)
	b := invoke.Batch{Items: make([][]wire.NamedTensor, len(f.items))}
	latest := dispatch.Time(0)
	for i, it := range f.items {
		b.Items[i] = it.req.function.inputs
		latest = max(latest, it.req.deadline)
	}
	b.Latest = e.gateway.epoch.Add(latest)
	out := e.target.Call(e.gateway.life, b)
	failed := 0
	if out.Err != nil {
		failed = len(f.items)
	}
	now := f.station.returned(f, returned{waited: out.Init, compute: out.Run, failed: failed, outcome: &out})
	if o := e.gateway.options.Observer.CallEnd; o != nil {
		o(CallInfo{
			Function: e.hello.Pipeline, Group: e.hello.Module, Requests: len(f.items), Kind: string(out.Kind), Cold: out.Cold,
			Again: out.Attempts - 1, Ran: out.Ran, Billed: out.Billed, Cost: out.Cost,
		})
	}
	e.gateway.batchEnd(f, now, out.Init, out.Run, out.Err)
	for i, it := range f.items {
		if out.Err != nil {
			it.req.fail(staged(out.Err, e.hello.Module, it, now))
			continue
		}
		it.req.keep(out.Items[i], out.Cold)
		it.req.complete(it, nil)
	}
}

// keep notes the answer of a call, unless the request is over.
func (r *request) keep(answer []wire.NamedTensor, cold bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over.Load() {
		r.function.answer, r.function.cold = answer, cold
	}
}

// callReturned counts a call that has ended. The station's lock is held.
func (s *station) callReturned(f *flight, out *invoke.Outcome) {
	s.running--
	fn := f.exec.function
	switch {
	case out.Kind == invoke.Unreachable:
		fn.unreachable = out.Err.Reason
	case out.Ran:
		fn.unreachable = ""
	}
	g := &fn.groups[f.exec.group]
	g.Requests += int64(len(f.items))
	g.Retries += int64(max(0, out.Attempts-1))
	if out.Ran {
		g.Calls++
		g.Billed += out.Billed
		g.Spent += out.Cost
		if out.Estimated {
			g.Estimated++
		}
	}
	if out.Cold {
		g.ColdStarts++
	}
	if out.Err != nil {
		g.Errors[string(out.Kind)]++
	}
}

// rehome gives a waiting request to the application of the same name in the
// function that serves now, and says whether there is one. The station's lock is
// held.
func (s *station) rehome(it *item) bool {
	if s.function == nil {
		return true
	}
	r := it.req.function
	to, err := s.function.application(r.app.name)
	if err != nil {
		return false
	}
	if to != r.app {
		r.app.stats.HandOver(&to.stats)
		r.app = to
	}
	return true
}

// close fails what waits for a call; calls under way end by themselves.
func (s *station) close() {
	var room [4]effect
	fx := room[:0]
	s.mu.Lock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	now := s.gateway.now()
	for _, it := range s.waiting() {
		fx = append(fx, s.expel(it, it.req.timed(now, wire.CodeUnavailable, stopping)))
	}
	s.mu.Unlock()
	s.apply(fx)
}

// expel takes an item out of the queue whose request is to fail.
func (s *station) expel(it *item, err *wire.Error) effect {
	s.take(it.id)
	it.state = ended
	return effect{item: it, err: err}
}

const stopping = "the gateway is stopping"
