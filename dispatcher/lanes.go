package dispatcher

import (
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
)

// lane is one batch that an executor may run at a time.
type lane struct {
	exec  *Executor // nil when the lane is free for another
	group int32
	known bool          // it is registered with the policy
	alone bool          // and that its executor has its device for itself
	away  bool          // its engine is being loaded again
	held  bool          // it idles, and the policy is not to use it while its device is stuck
	idle  bool          // of a function: the policy may start a call
	batch *Batch        // that runs there; nil when it idles
	free  dispatch.Time // when its last batch ended
}

// setup is what an Install gives a station.
type setup struct {
	policy  dispatch.Policy
	spec    factory.Spec // of the policy
	groups  []groupShape
	members []member

	calls int      // of a function; 0 for a module
	apps  []string // of a function, by class

	classes *Generation // of a part of a cluster
}

// member is an executor that serves a group.
type member struct {
	exec  *Executor
	group int32
}

// configure puts a new policy in charge of the waiting items. Executors that
// are not among the members finish what they hold and get no more. It returns
// the number of items that waited.
func (s *station) configure(c setup) int {
	s.mu.Lock()
	now := s.dispatcher.Now()
	s.timer.Stop()
	waiting := s.waiting()
	for i := range s.lanes {
		if e := s.lanes[i].exec; e != nil {
			e.forgetLanes(s)
		}
	}
	heir, learns := c.policy.(dispatch.Successor)
	if learns = learns && s.drive.Policy != nil; learns {
		heir.Inherit(s.drive.Policy)
	}
	s.recorder.Begin(c.policy, c.spec, learns)
	s.drive.Policy, s.windows, s.groups, s.lanes = c.policy, c.spec.Groups(), c.groups, nil
	s.calls, s.apps = c.calls, c.apps
	if c.classes != nil {
		s.cluster = s.cluster.next(c.classes, s.dispatcher.options.Span, now)
	}
	if s.up > 0 {
		s.up, s.downAt = 0, now
	}
	for _, m := range c.members {
		s.join(now, m)
	}
	for _, it := range waiting {
		if !s.classify(it) {
			s.giveUp(it, Unserved)
			continue
		}
		s.step(now, dispatch.Event{Kind: dispatch.Arrive, Request: it.request()})
	}
	s.unlock()
	return len(waiting)
}

// add takes on an executor that has just come.
func (s *station) add(m member) {
	s.mu.Lock()
	s.join(s.dispatcher.Now(), m)
	s.unlock()
}

// join gives the executor its lanes. A lane is registered with the policy when it is idle: at
// once, or when an earlier batch that runs there has ended.
func (s *station) join(now dispatch.Time, m member) {
	if m.exec.caller {
		s.newLane(m)
		s.up++
		s.offerLanes(now)
		return
	}
	running, away := m.exec.runningOf(s), m.exec.enginesAway()
	for range m.exec.concurrency {
		id := s.newLane(m)
		s.up++
		if away > len(running) {
			away--
			s.lanes[id].away = true
			continue
		}
		if len(running) > 0 {
			running[0].lane, running[0].group = int32(id), m.group
			s.lanes[id].batch = running[0]
			running = running[1:]
			continue
		}
		s.announce(now, id)
	}
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

// announce registers an executor with the policy, unless it is registered or stuck.
func (s *station) announce(now dispatch.Time, id dispatch.ExecutorID) {
	s.neighbours(now)
	l := &s.lanes[id]
	if l.known {
		return
	}
	if l.held = l.exec.isStuck(); l.held {
		return
	}
	l.known, l.alone = true, l.exec.alone()
	s.decide(now, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: l.group, Alone: l.alone})
}

// remove takes an executor out: it gets no more batches.
func (s *station) remove(e *Executor) {
	s.mu.Lock()
	now := s.dispatcher.Now()
	e.forgetLanes(s)
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
		if known { // before any other event: the policy may start a batch on any registered executor
			s.decide(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(i)})
		}
	}
	s.neighbours(now)
	s.unlock()
}

// outage is a round trip to an executor so long that a process was stopped or a network cut.
// Admission control must not learn from it: it would refuse everything for ever, and never see
// that batches are as fast as before.
const outage = 250 * time.Millisecond

// tailFade is how many batches it takes to forget one that ended long after its Soon.
const tailFade = 64

// returned notes that a batch has come back and lets the lane go on, unless its
// engine is away: then the policy does without, but requests may wait for it,
// because either it comes back or its executor goes.
func (s *station) returned(b *Batch, r Report) dispatch.Time {
	s.mu.Lock()
	now := s.dispatcher.Now()
	left := b.left(r)
	for _, it := range b.Items {
		it.finish(left, now, r.Waited, r.Compute)
	}
	s.count(b, now, r)
	if b.soon > 0 {
		s.tail = max(now-b.soon, s.tail-s.tail/tailFade)
	}
	learn := r.Compute
	if r.Failed > 0 || r.Away || now-b.At-r.Compute-r.Waited > outage {
		learn = 0 // computed twice, or not, or a process was stopped meanwhile
	}
	b.accountEnd(b.group, now, learn)
	if b.Executor.caller {
		s.running--
		s.offerLanes(now)
	} else {
		s.freeLane(now, b, r)
	}
	s.unlock()
	return now
}

// count notes a batch whose items have their times.
func (s *station) count(b *Batch, now dispatch.Time, r Report) {
	whole := b.Items[0]
	counts := whole.stats
	stays := counts.Batch(now, batchStats{
		Took:     whole.Ended - whole.Ready - whole.Queue,
		Executor: b.Executor.Name, Hardware: b.Executor.Hardware, Host: b.Executor.host, Items: len(b.Items), Rows: b.Rows, Concurrency: b.Executor.concurrency,
		Largest: b.Items[0].Request.Generation.largest, Failed: r.Failed, Compute: r.Compute, Transfer: whole.transfer(),
	})
	if stays == nil {
		return
	}
	stays.AddShared(len(b.Items), whole.Compute, whole.transfer())
	for _, it := range b.Items {
		stays.AddItem(it.Queue, it.Wait)
	}
}

func (s *station) freeLane(now dispatch.Time, b *Batch, r Report) {
	if r.Away {
		b.Executor.addAway(1)
	}
	at := s.laneOf(b, r.Away)
	if at < 0 {
		return
	}
	s.neighbours(now)
	l := &s.lanes[at]
	l.batch, l.away, l.held, l.free = nil, r.Away, false, now
	switch {
	case r.Away && l.known:
		l.known = false
		s.decide(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(at)})
		return
	case r.Away:
		return
	case l.known:
		s.decide(now, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(at), Took: r.Compute})
		return
	}
	s.announce(now, dispatch.ExecutorID(at))
}

// soon frees the lane of a batch that is about to end, where no other executor may
// need the device then: it takes the next batch ahead.
func (s *station) soon(b *Batch, took dispatch.Time) {
	s.mu.Lock()
	now := s.dispatcher.Now()
	s.neighbours(now)
	if at := s.laneOf(b, false); at >= 0 && s.lanes[at].known && s.lanes[at].exec.alone() {
		l := &s.lanes[at]
		l.batch, l.free, b.lane, b.soon = nil, now, -1, now
		s.decide(now, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(at), Took: took, At: now + s.tail})
	}
	s.unlock()
}

// reopen gives a lane of the executor work again whose engine was away.
func (s *station) reopen(e *Executor) {
	s.mu.Lock()
	now := s.dispatcher.Now()
	e.addAway(-1)
	for i := range s.lanes {
		if l := &s.lanes[i]; l.exec == e && l.away {
			l.away, l.free = false, now
			s.announce(now, dispatch.ExecutorID(i))
			break
		}
	}
	s.unlock()
}

// laneOf is the lane of a batch that has ended, or -1. An Install between its end
// and now has made other lanes: then none, or, for an engine that is away, one
// of the executor's that idles.
func (s *station) laneOf(b *Batch, away bool) int {
	if b.lane >= 0 && int(b.lane) < len(s.lanes) && s.lanes[b.lane].batch == b {
		return int(b.lane)
	}
	if !away {
		return -1
	}
	return slices.IndexFunc(s.lanes, func(l lane) bool { return l.exec == b.Executor && l.batch == nil && !l.away })
}
