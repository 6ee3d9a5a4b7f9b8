package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/gateway/stats"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/wire"
)

// station drives the dispatch policy of one module: events in, actions out. It
// outlives deployments for as long as its module stays the same.
type station struct {
	gateway  *Gateway
	pipeline string
	name     string
	identity string // of the module; see identityOf

	sig atomic.Pointer[pipelines.Signature] // of the executor that attached last

	mu      sync.Mutex
	policy  dispatch.Policy
	groups  []groupShape
	windows bool // the policy closes batches by the windows of groups
	slots   []slot
	free    []uint32
	lanes   []lane // by ExecutorID
	up      int    // lanes that the policy knows of or will, once their engines are back
	downAt  dispatch.Time
	moves   int64 // of Gateway.moves that the policy knows of
	timer   *time.Timer
	actions []dispatch.Action
	stats   stats.Module

	recorder *recording.Recorder // of the policy's steps; nil where nothing is recorded

	// Of a function; see call.go.
	function *function // that serves now; nil for a module
	running  int       // calls, of all generations
	stopped  bool      // no more calls are made
}

// slot holds an item that the policy knows. A RequestID is the slot's index
// with its turn above, so that one is not used again while it is in flight.
type slot struct {
	item *item
	turn uint32
}

// lane is one batch that an executor may run at a time.
type lane struct {
	exec   *executor // nil when the lane is free for another
	group  int32
	known  bool          // the policy has been told of it
	alone  bool          // and that its executor has its device for itself
	away   bool          // its engine is being loaded anew
	idle   bool          // of a function: the policy may start a call
	flight *flight       // that runs there; nil when it idles
	free   dispatch.Time // when its last batch ended
}

// groupShape is what a station must know of a group to tell queue from wait.
type groupShape struct {
	batch  int
	window dispatch.Time
}

// effect is what is left to do after the station's lock has been released:
// send a batch, or fail the request of an item.
type effect struct {
	flight *flight
	item   *item
	drop   string // why the policy has dropped the item, in the words of autoscale
	err    *wire.Error
}

func (s *station) signature() *pipelines.Signature { return s.sig.Load() }

// submit queues an item, unless its request is over.
func (s *station) submit(it *item) {
	var room [4]effect
	s.mu.Lock()
	fx := s.arrive(s.gateway.now(), it, room[:0])
	s.mu.Unlock()
	s.apply(fx)
}

func (s *station) arrive(now dispatch.Time, it *item, fx []effect) []effect {
	if it.req.over.Load() || it.state == ended {
		return fx
	}
	if it.attempts == 0 {
		it.ready = now
		s.stats.Arrive(now)
		if it.node.declared.Sized {
			s.stats.Query(now, it.size(), it.req.graph.largest)
		}
	}
	if s.stopped {
		it.state = ended
		return append(fx, effect{item: it, err: it.req.timed(now, wire.CodeUnavailable, stopping)})
	}
	it.state = queued
	pressure := s.gateway.door.wait(it, 1)
	if it.attempts == 0 {
		it.kept = it.node.Keep.Under(pressure)
	}
	it.id = s.put(it)
	return s.step(now, dispatch.Event{Kind: dispatch.Arrive, Request: it.request()}, fx)
}

// request is the item as the policy sees it. The station's lock is held.
func (it *item) request() dispatch.Request {
	q := it.node.Request(it.req.arrival, it.req.deadline, it.kept)
	q.ID, q.Size = it.id, int32(it.size())
	if f := it.req.function; f != nil {
		q.Class = f.app.class
	}
	return q
}

// withdraw takes a waiting item out of the queue. What is in a batch already
// runs on, and nobody looks at its answer.
func (s *station) withdraw(it *item) {
	var room [4]effect
	fx := room[:0]
	s.mu.Lock()
	if it.state == queued {
		s.take(it.id)
		it.state = ended
		s.gateway.door.wait(it, -1)
		fx = s.step(s.gateway.now(), dispatch.Event{Kind: dispatch.Cancel, Request: it.request()}, fx)
	}
	s.mu.Unlock()
	s.apply(fx)
}

// step reports an event to the policy and carries its actions out as far as
// the lock allows.
func (s *station) step(now dispatch.Time, ev dispatch.Event, fx []effect) []effect {
	fx = s.decide(now, ev, s.neighbours(now, fx))
	if s.function != nil {
		fx = s.offerLanes(now, fx)
	}
	return fx
}

// decide is step where the policy knows who shares its devices.
func (s *station) decide(now dispatch.Time, ev dispatch.Event, fx []effect) []effect {
	for ev.Kind != 0 {
		s.actions = s.policy.Step(now, ev, s.actions[:0])
		s.recorder.Step(now, ev, s.actions)
		ev, fx = s.act(now, fx)
	}
	return fx
}

// act carries the actions out and returns the answer to what the policy asks.
func (s *station) act(now dispatch.Time, fx []effect) (answer dispatch.Event, _ []effect) {
	for i := range s.actions {
		switch a := &s.actions[i]; a.Act {
		case dispatch.Start:
			if f := s.start(now, a); s.function != nil {
				fx = s.startCalls(f, fx)
			} else {
				fx = append(fx, effect{flight: f})
			}
		case dispatch.SetTimer:
			s.arm(a.At - now)
		case dispatch.Drop:
			if it := s.take(a.Request); it != nil {
				it.state = ended
				s.gateway.door.wait(it, -1)
				drop := s.why(it, a.Reason)
				s.stats.Drop(now, drop)
				fx = append(fx, effect{item: it, drop: drop, err: s.refusal(now, it, drop)})
			}
		default:
			answer = s.arbitrate(now, a)
		}
	}
	return answer, fx
}

// start makes the batch of an action.
func (s *station) start(now dispatch.Time, a *dispatch.Action) *flight {
	l := &s.lanes[a.Executor]
	f := &flight{station: s, lane: int32(a.Executor), at: now}
	f.items = f.few[:0]
	if len(a.Batch) > len(f.few) {
		f.items = make([]*item, 0, len(a.Batch))
	}
	var first, last dispatch.Time
	for i, id := range a.Batch {
		it := s.take(id)
		it.state, it.start, it.batch = sent, now, int32(len(a.Batch))
		if it.node.declared.Sized {
			it.batch = int32(it.size())
		}
		f.items = append(f.items, it)
		if i == 0 || it.ready < first {
			first = it.ready
		}
		last = max(last, it.ready)
	}
	closed := s.closed(now, a, first, last)
	for _, it := range f.items {
		it.wait = max(0, closed-it.ready)
		it.queue = now - it.ready - it.wait
	}
	s.gateway.door.start(f.items)
	if s.function == nil {
		l.flight = f
		l.exec.enter(f)
	}
	return f
}

// closed is when a batch that starts now was complete: what came before it is
// wait, and what comes after it is queue. Policies without windows collect
// until they start a batch, except while it had no executor.
func (s *station) closed(now dispatch.Time, a *dispatch.Action, first, last dispatch.Time) dispatch.Time {
	switch {
	case !s.windows:
		return now - max(0, s.lanes[a.Executor].free-last)
	case len(a.Batch) >= s.groups[a.Group].batch:
		return last
	}
	return min(now, max(last, first+s.groups[a.Group].window))
}

// arm sets the timer; a lapsed one is reported even when it comes late.
func (s *station) arm(d time.Duration) {
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.tick)
		return
	}
	s.timer.Reset(d)
}

func (s *station) tick() { s.handle(dispatch.Event{Kind: dispatch.Timer}) }

// handle reports an event that nothing else comes with.
func (s *station) handle(ev dispatch.Event) {
	var room [4]effect
	fx := room[:0]
	s.mu.Lock()
	if !s.stopped {
		fx = s.step(s.gateway.now(), ev, fx)
	}
	s.mu.Unlock()
	s.apply(fx)
}

// apply does what a step has left to do. No lock may be held.
func (s *station) apply(fx []effect) {
	for _, e := range fx {
		if e.flight != nil {
			e.flight.exec.launch(e.flight)
			continue
		}
		if o := s.gateway.options.Observer.Dropped; o != nil && e.drop != "" {
			o(DropInfo{Pipeline: s.pipeline, Module: e.item.stage(), Reason: e.drop})
		}
		e.item.req.fail(e.err)
	}
}

// why puts the reason of a drop into the words of autoscale.
func (s *station) why(it *item, reason dispatch.Reason) string {
	switch {
	case reason == dispatch.Full:
		return autoscale.DropFull
	case it.attempts > 0:
		return autoscale.DropLost
	case s.up == 0:
		return autoscale.DropNoExecutor
	}
	return autoscale.DropLate
}

// refusal tells the caller why a policy has dropped an item.
func (s *station) refusal(now dispatch.Time, it *item, drop string) *wire.Error {
	r := it.req
	e := r.timed(now, wire.CodeDeadline, "the deadline can no longer be met")
	e.Stage = it.stage()
	switch drop {
	case autoscale.DropFull:
		e.Code, e.Reason = wire.CodeOverloaded, "the queue is full; send fewer requests or scale the pipeline up"
	case autoscale.DropLost:
		e.Code, e.Reason = wire.CodeUnavailable, "its executor was lost and there is no time left for another"
	case autoscale.DropNoExecutor:
		e.Code, e.Reason = wire.CodeUnavailable, "no executor is attached"
	default:
		if s.function != nil && s.running >= s.function.limit() {
			e.Code, e.Reason = wire.CodeOverloaded, "as many calls run as the provider allows, and the deadline can no longer be met"
		}
	}
	return e
}

// stage is the name under which the item's module is reported: of a function, that
// of the group.
func (it *item) stage() string {
	if f := it.req.function; f != nil {
		return f.app.stage
	}
	return it.node.Module
}

func (s *station) put(it *item) dispatch.RequestID {
	var i uint32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = uint32(len(s.slots))
		s.slots = append(s.slots, slot{})
	}
	s.slots[i].item = it
	s.slots[i].turn++
	return dispatch.RequestID(s.slots[i].turn)<<32 | dispatch.RequestID(i)
}

// take removes an item from its slot; nil when it is not there any more.
func (s *station) take(id dispatch.RequestID) *item {
	i := uint32(id)
	if int(i) >= len(s.slots) || s.slots[i].turn != uint32(id>>32) {
		return nil
	}
	it := s.slots[i].item
	if it != nil {
		s.slots[i].item = nil
		s.free = append(s.free, i)
	}
	return it
}

// waiting lists the queued items in the order of their virtual arrival.
func (s *station) waiting() []*item {
	var all []*item
	for i := range s.slots {
		if s.slots[i].item != nil {
			all = append(all, s.slots[i].item)
		}
	}
	slices.SortStableFunc(all, func(a, b *item) int {
		return int(a.request().Arrival - b.request().Arrival)
	})
	return all
}
