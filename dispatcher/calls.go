package dispatcher

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// The executor of a group of a function is not attached: every batch is a call of
// its own to the provider, which runs as many at once as it allows. It has one lane.
// For policy grouped the lane is free again as soon as a batch has left, and gone while as many
// calls run as the provider allows.

// NewCaller makes the executor of a group of a function. It is no device's.
func (d *Dispatcher) NewCaller(name, hardware string, group int, holder any) *Executor {
	e := &Executor{dispatcher: d, Name: name, Hardware: hardware, Holder: holder, concurrency: 1, caller: true, group: int32(group)}
	e.settle(new(device)) // it shares none
	return e
}

// Group is the group of a function's plan whose calls the executor makes.
func (e *Executor) Group() int { return int(e.group) }

// startCalls makes the calls of a batch that a lane has started. Items whose
// tensors do not fit together go in calls of their own. The station's lock is held.
func (s *station) startCalls(b *Batch) {
	l := &s.lanes[b.lane]
	l.idle = false
	first := len(s.fx)
	for _, it := range b.Items {
		calls := s.fx[first:]
		i := slices.IndexFunc(calls, func(e effect) bool { return e.batch.Items[0].Form == it.Form })
		if i < 0 {
			i = len(calls)
			s.fx = append(s.fx, effect{batch: &Batch{station: s, Executor: l.exec, lane: b.lane, At: b.At}})
		}
		s.fx[first+i].batch.add(it)
	}
	calls := s.fx[first:]
	for _, e := range calls {
		for _, it := range e.batch.Items {
			it.Batch = int32(len(e.batch.Items))
		}
	}
	s.running += len(calls)
	s.dispatcher.calls.Add(len(calls))
}

// offerLanes reports to the policy which lanes may start a call: all while fewer run than the
// provider allows, none once as many do. The station's lock is held.
func (s *station) offerLanes(now dispatch.Time) {
	for i := 0; i < len(s.lanes) && !s.stopped; i++ {
		l := &s.lanes[i]
		full := s.running >= s.calls
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
		s.decide(now, ev)
		i = -1 // calls may have started: look at all lanes again
	}
}

// classify finds the policy's class for the item's application, or its module in a cluster, and
// reports whether there is one. The station's lock is held.
func (s *station) classify(it *Item) bool {
	it.stats = &s.stats
	switch {
	case s.cluster != nil:
		return s.cluster.classify(it)
	case s.calls == 0:
		return true
	}
	it.class = int32(slices.Index(s.apps, it.Request.Generation.apps[it.Class]))
	return it.class >= 0
}

// CallDone notes that all is done that a call was for. Close waits for it.
func (d *Dispatcher) CallDone() { d.calls.Done() }

// close gives up what waits for a call; calls under way end by themselves.
func (s *station) close() {
	s.mu.Lock()
	s.stopped = true
	s.timer.Stop()
	for _, it := range s.waiting() {
		s.giveUp(it, Stopping)
	}
	s.unlock()
}

// giveUp takes an item out of the queue and drops it.
func (s *station) giveUp(it *Item, why Drop) {
	s.take(it.id)
	s.drop(it, why)
}

// drop gives up an item that is not in the queue.
func (s *station) drop(it *Item, why Drop) {
	it.state = ended
	s.fx = append(s.fx, effect{item: it, drop: why})
}
