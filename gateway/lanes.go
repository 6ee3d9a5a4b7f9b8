package gateway

import (
	"slices"

	"github.com/harpagon/harpagon/executors/invoke"
	"github.com/harpagon/harpagon/gateway/stats"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/wire"
)

// setup is what an Install tells a station.
type setup struct {
	policy  dispatch.Policy
	spec    factory.Spec // of the policy
	windows bool
	groups  []groupShape
	members []member

	function *function // nil for a module
}

// member is an executor that serves a group.
type member struct {
	exec  *executor
	group int32
}

// configure puts a new policy in charge of the waiting items. Executors that
// are not among the members finish what they hold and get no more. It returns
// the number of items that waited.
func (s *station) configure(c setup) int {
	var room [4]effect
	fx := room[:0]
	s.mu.Lock()
	now := s.gateway.now()
	if s.timer != nil {
		s.timer.Stop()
	}
	waiting := s.waiting()
	for i := range s.lanes {
		if e := s.lanes[i].exec; e != nil {
			e.leaveLane(s)
		}
	}
	heir, learns := c.policy.(dispatch.Heir)
	if learns = learns && s.policy != nil; learns {
		heir.Inherit(s.policy)
	}
	s.recorder.Begin(c.policy, c.spec, learns)
	s.policy, s.windows, s.groups, s.lanes, s.function = c.policy, c.windows, c.groups, nil, c.function
	if s.up > 0 {
		s.up, s.downAt = 0, now
	}
	for _, m := range c.members {
		fx = s.join(now, m, fx)
	}
	for _, it := range waiting {
		if !s.rehome(it) {
			fx = append(fx, s.expel(it, it.req.timed(now, wire.CodeUnavailable, "its application is not served any more")))
			continue
		}
		fx = s.step(now, dispatch.Event{Kind: dispatch.Arrive, Request: it.request()}, fx)
	}
	s.mu.Unlock()
	s.apply(fx)
	return len(waiting)
}

// add takes on an executor that has just attached.
func (s *station) add(m member) {
	var room [4]effect
	s.mu.Lock()
	fx := s.join(s.gateway.now(), m, room[:0])
	s.mu.Unlock()
	s.apply(fx)
}

// join gives the executor its lanes. The policy is told of a lane when it is
// idle: at once, or when the batch has ended that runs there from before.
func (s *station) join(now dispatch.Time, m member, fx []effect) []effect {
	if m.exec.target != nil {
		s.newLane(m)
		s.up++
		return s.offerLanes(now, fx)
	}
	inAir, away := m.exec.flightsOf(s), m.exec.missing()
	for range m.exec.concurrency() {
		id := s.newLane(m)
		s.up++
		if away > len(inAir) {
			away--
			s.lanes[id].away = true
			continue
		}
		if len(inAir) > 0 {
			inAir[0].lane = int32(id)
			s.lanes[id].flight = inAir[0]
			inAir = inAir[1:]
			continue
		}
		fx = s.announce(now, id, fx)
	}
	return fx
}

func (s *station) newLane(m member) dispatch.ExecutorID {
	fresh := lane{exec: m.exec, group: m.group}
	for i := range s.lanes {
		if s.lanes[i].exec == nil {
			s.lanes[i] = fresh
			return dispatch.ExecutorID(i)
		}
	}
	s.lanes = append(s.lanes, fresh)
	return dispatch.ExecutorID(len(s.lanes) - 1)
}

func (s *station) announce(now dispatch.Time, id dispatch.ExecutorID, fx []effect) []effect {
	fx = s.neighbours(now, fx)
	l := &s.lanes[id]
	l.known, l.alone = true, l.exec.alone()
	return s.decide(now, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: l.group, Alone: l.alone}, fx)
}

// remove takes an executor out: it gets no more batches.
func (s *station) remove(e *executor) {
	var room [4]effect
	fx := room[:0]
	s.mu.Lock()
	now := s.gateway.now()
	e.leaveLane(s)
	for i := range s.lanes {
		l := &s.lanes[i]
		if l.exec != e {
			continue
		}
		known := l.known
		*l = lane{}
		if s.up--; s.up == 0 {
			s.downAt = now
		}
		if known {
			fx = s.step(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(i)}, fx)
		}
	}
	s.mu.Unlock()
	s.apply(fx)
}

// returned is what is known of a batch that has come back.
type returned struct {
	waited, compute dispatch.Time
	failed          int
	away            bool            // its engine must be loaded anew
	outcome         *invoke.Outcome // of a call
}

// returned notes that a batch has come back and lets the lane go on, unless its
// engine is away: then the policy does without, but requests may wait for it,
// because either it comes back or its executor goes.
func (s *station) returned(f *flight, r returned) dispatch.Time {
	var room [4]effect
	fx := room[:0]
	s.mu.Lock()
	now := s.gateway.now()
	for _, it := range f.items {
		it.finish(now, r.waited, r.compute)
	}
	s.count(f, now, r)
	learn := r.compute
	if r.failed > 0 || r.away {
		learn = 0 // computed twice, or not
	}
	s.gateway.door.end(f, s.groupOf(f), now, learn)
	if r.outcome != nil {
		s.callReturned(f, r.outcome)
		fx = s.offerLanes(now, fx)
	} else {
		fx = s.freeLane(now, f, r, fx)
	}
	s.mu.Unlock()
	s.apply(fx)
	return now
}

// count notes a batch whose items have their times.
func (s *station) count(f *flight, now dispatch.Time, r returned) {
	timed := s.stats.Batch(now, stats.Batch{
		Executor: f.exec.hello.Executor, Hardware: f.exec.hello.Hardware, Items: len(f.items), Rows: f.rows(),
		Largest: f.items[0].req.graph.largest, Failed: r.failed, Compute: r.compute,
	})
	for _, it := range f.items {
		if timed {
			s.stats.Item(now, it.queue, it.wait, it.compute, it.end-it.ready-it.queue-it.wait-it.compute)
		}
	}
}

func (s *station) freeLane(now dispatch.Time, f *flight, r returned, fx []effect) []effect {
	if r.away {
		f.exec.leaves(1)
	}
	at := s.laneOf(f, r.away)
	if at < 0 {
		return fx
	}
	l := &s.lanes[at]
	l.flight, l.away, l.free = nil, r.away, now
	switch {
	case r.away && l.known:
		l.known = false
		return s.step(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(at)}, fx)
	case r.away:
		return fx
	case l.known:
		return s.step(now, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(at), Took: r.compute}, fx)
	}
	return s.announce(now, dispatch.ExecutorID(at), fx)
}

// back opens a lane of the executor again whose engine was away.
func (s *station) back(e *executor) {
	var room [4]effect
	fx := room[:0]
	s.mu.Lock()
	now := s.gateway.now()
	e.leaves(-1)
	for i := range s.lanes {
		if l := &s.lanes[i]; l.exec == e && l.away {
			l.away, l.free = false, now
			fx = s.announce(now, dispatch.ExecutorID(i), fx)
			break
		}
	}
	s.mu.Unlock()
	s.apply(fx)
}

// laneOf is the lane of a batch that has ended, or -1. An Install between its end
// and now has made other lanes: then none, or, for an engine that is away, one
// of the executor's that idles.
func (s *station) laneOf(f *flight, away bool) int {
	if f.lane >= 0 && int(f.lane) < len(s.lanes) && s.lanes[f.lane].flight == f {
		return int(f.lane)
	}
	if !away {
		return -1
	}
	return slices.IndexFunc(s.lanes, func(l lane) bool { return l.exec == f.exec && l.flight == nil && !l.away })
}

// groupOf is the group that a batch ran for.
func (s *station) groupOf(f *flight) int32 {
	if f.lane >= 0 && int(f.lane) < len(s.lanes) {
		return s.lanes[f.lane].group
	}
	return -1
}

// finish splits the time between sending and receiving.
func (it *item) finish(now, waited, compute dispatch.Time) {
	it.state, it.end = ended, now
	away := now - it.start
	waited = min(max(waited, 0), away)
	it.compute = min(max(compute, 0), away-waited)
	it.queue += waited
}

// again queues the items of a batch that was lost with its executor: once, and
// while their requests are wanted. The others fail.
func (s *station) again(f *flight) {
	for _, it := range f.items {
		s.repeat(it, wire.Errorf(wire.CodeUnavailable, s.name, "two executors were lost while they held the request"))
	}
}

// repeat queues an item anew that has failed because its engine or executor was
// lost: once, for the next may well be lost to the same request. It is safe,
// since engines compute and do nothing else. Whatever failed otherwise fails.
func (s *station) repeat(it *item, err *wire.Error) {
	if err.Code != wire.CodeUnavailable || it.attempts > 0 {
		it.req.fail(err)
		return
	}
	var room [4]effect
	s.mu.Lock()
	it.attempts++
	it.state = fresh
	fx := s.arrive(s.gateway.now(), it, room[:0])
	s.mu.Unlock()
	s.apply(fx)
}

// down says since when the station has no executor.
func (s *station) down() (since dispatch.Time, down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.downAt, s.up == 0
}
