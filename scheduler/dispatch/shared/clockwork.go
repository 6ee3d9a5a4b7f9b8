package shared

import (
	"math/bits"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// clockworkAhead is the least work that every executor of clockwork should have before it
// (Clockwork's schedule-ahead): a batch is decided on as soon as less is left.
const clockworkAhead = 10 * time.Millisecond

// Sizes states which of the possible batches of a model clockwork takes.
type Sizes uint8

// The sizes.
const (
	LargestSize  Sizes = iota // the largest
	AnySize                   // any, with equal chance, as Symphony measured (section 5.2.2)
	DoubledSizes              // the largest of 1, 2, 4, 8 and 16, as Clockwork's program has them
)

const mostDoubled = 16

// ClockworkOptions configures Clockwork.
type ClockworkOptions struct {
	Options
	Sizes Sizes
}

// clockwork is Clockwork's dispatch: see NewClockwork.
type clockwork struct {
	base
	Sizes    Sizes
	Soon     dispatch.Agenda // busy executors without a next batch, by when to decide on it
	Next     []commitment    // by ExecutorID: the batch decided on
	Expiring dispatch.Agenda // executors with such a batch, by when its first request becomes late
}

// commitment is a batch that waits for the executor that it was decided for.
type commitment struct {
	Class int32
	Batch []waiter
}

// NewClockwork builds the dispatch of Clockwork (OSDI 2020) as far as it
// concerns batches; loading of models is left out, as in Symphony's
// comparison. Every executor is kept supplied: when less than clockworkAhead of work is
// left, its next batch is decided on. Of all models and sizes, those are
// possible that have enough requests waiting and end before the first of them
// is due; the one that must start first is taken. Its requests are fixed from
// then on, and what arrives later goes into later batches: predictable, and
// the reason for its small batches.
func NewClockwork(o ClockworkOptions) dispatch.Policy {
	return &clockwork{base: newBase(o.Options), Sizes: o.Sizes}
}

// Name is "clockwork".
func (p *clockwork) Name() string { return "clockwork" }

// Describe draws the policy for logs and golden transcripts.
func (p *clockwork) Describe() string { return p.describe("clockwork") }

// Step takes one event and appends the actions that follow from it.
func (p *clockwork) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.begin(now, &ev)
	switch ev.Kind {
	case dispatch.Arrive:
		var ok bool
		if out, ok = p.admit(&ev.Request, out); ok {
			p.expire(ev.Request.Class)
		}
	case dispatch.Cancel:
		p.forget(&ev.Request)
	case dispatch.ExecutorUp, dispatch.ExecutorGone:
		p.release(ev.Executor)
		p.change(&ev)
		for len(p.Parked) > 0 {
			p.expire(p.unpark())
		}
	case dispatch.ExecutorFree:
		p.change(&ev)
		out = p.startCommitted(ev.Executor, out)
	}
	for p.Wakes.Next() <= p.Now {
		p.expire(p.Wakes.Top())
	}
	for p.Expiring.Next() <= p.Now {
		p.trim(dispatch.ExecutorID(p.Expiring.Top()))
	}
	for more := true; more; { // what stands behind a batch may suit another executor
		if out, more = p.startNext(out); !more {
			more = p.commitNext()
		}
	}
	wake := min(p.Wakes.Next(), p.Expiring.Next())
	if p.Soon.Next() > p.Now {
		wake = min(wake, p.Soon.Next())
	}
	return p.arm(wake, p.settle(out))
}

// startNext starts a batch on an open executor, one of the first groups before the others, and
// reports whether any of them had one.
func (p *clockwork) startNext(out []dispatch.Action) ([]dispatch.Action, bool) {
	for g := range p.Fleet.Open {
		if p.Fleet.Open[g].N == 0 {
			continue
		}
		id := dispatch.ExecutorID(p.Fleet.Open[g].First())
		if class, size := p.choose(id); size > 0 {
			out = p.start(class, id, size, out)
			p.expire(class)
			p.decideAt(id)
			return out, true
		}
	}
	return out, false
}

// commitNext decides on the next batch of the busy executor whose turn came first, and
// reports whether there was one.
func (p *clockwork) commitNext() bool {
	if p.Soon.Next() > p.Now {
		return false
	}
	id := dispatch.ExecutorID(p.Soon.Top())
	class, size := p.choose(id)
	if size == 0 {
		return false
	}
	p.Soon.Drop(int32(id))
	p.commit(class, id, size)
	p.expire(class)
	return true
}

// choose finds the batch for an executor that must start first: its model and
// size, or size 0. Heads that would be late there are passed over by their
// model having no size.
func (p *clockwork) choose(id dispatch.ExecutorID) (best int32, size int) {
	last := never
	for c := range p.Lines {
		q := &p.Lines[c]
		if q.N == 0 {
			continue
		}
		s := p.offer(int32(c), id)
		b := s.largest(q.N, q.due(0))
		if b == 0 {
			continue
		}
		switch p.Sizes {
		case AnySize:
			b = 1 + int(scatter(uint64(q.at(0).ID)*31+uint64(p.Now))%uint64(b))
		case DoubledSizes:
			b = min(mostDoubled, 1<<(bits.Len(uint(b))-1))
		}
		if at := q.due(0) - s.table.of(b); at < last {
			best, size, last = int32(c), b, at
		}
	}
	return best, size
}

// decideAt remembers when the next batch of a busy executor must be decided on.
func (p *clockwork) decideAt(id dispatch.ExecutorID) {
	for int(id) >= len(p.Next) {
		p.Next = append(p.Next, commitment{})
	}
	p.Soon.Reserve(len(p.Next))
	p.Expiring.Reserve(len(p.Next))
	p.Soon.Set(int32(id), p.Fleet.Execs[id].Free-clockworkAhead)
}

// commit fixes the first requests of a line for a busy executor.
func (p *clockwork) commit(class int32, id dispatch.ExecutorID, size int) {
	q, n := &p.Lines[class], &p.Next[id]
	n.Class, n.Batch = class, n.Batch[:0]
	for i := range size {
		n.Batch = append(n.Batch, *q.at(i))
	}
	q.skip(size)
	p.trim(id)
}

// trim gives up from a committed batch the requests that it would serve too late, and
// notes when that will next be so.
func (p *clockwork) trim(id dispatch.ExecutorID) {
	n := &p.Next[id]
	s := offer{now: p.Now, free: p.Now, delay: p.Delay, table: p.Models[n.Class].Tables[p.Fleet.Execs[id].Group]}
	late := 0
	for late < len(n.Batch) && s.finish(len(n.Batch)-late) > n.Batch[late].Due {
		p.giveUp(n.Class, n.Batch[late])
		late++
	}
	p.Waiting -= late
	n.Batch = append(n.Batch[:0], n.Batch[late:]...)
	if left := len(n.Batch); left > 0 {
		p.Expiring.Set(int32(id), n.Batch[0].Due-s.table.of(left)-p.Delay.Of(left)+1)
	} else {
		p.Expiring.Drop(int32(id))
	}
}

// startCommitted starts the batch that was decided for an executor, without those that
// would be late by now.
func (p *clockwork) startCommitted(id dispatch.ExecutorID, out []dispatch.Action) []dispatch.Action {
	if int(id) >= len(p.Next) || id < 0 || !p.Fleet.Has(id) || p.Fleet.Execs[id].Pending > 0 {
		return out
	}
	p.Soon.Drop(int32(id))
	n := &p.Next[id]
	if len(n.Batch) == 0 {
		return out
	}
	p.trim(id)
	if len(n.Batch) == 0 {
		return out
	}
	from := len(p.batch)
	for _, w := range n.Batch {
		p.batch = append(p.batch, w.ID)
	}
	p.Waiting -= len(n.Batch)
	n.Batch = n.Batch[:0]
	p.Expiring.Drop(int32(id))
	out = p.launch(n.Class, id, from, out)
	p.decideAt(id)
	return out
}

// release puts back in line what was decided for an executor that leaves.
func (p *clockwork) release(id dispatch.ExecutorID) {
	if id < 0 || int(id) >= len(p.Next) {
		return
	}
	p.Soon.Drop(int32(id))
	p.Expiring.Drop(int32(id))
	n := &p.Next[id]
	for _, w := range n.Batch {
		p.Lines[n.Class].insert(w)
	}
	if len(n.Batch) > 0 {
		n.Batch = n.Batch[:0]
		p.expire(n.Class)
	}
}

// forget cancels a request, wherever it waits.
func (p *clockwork) forget(r *dispatch.Request) {
	if class := p.cancel(r); class >= 0 {
		p.expire(class)
	}
	for e := range p.Next {
		n := &p.Next[e]
		for i, w := range n.Batch {
			if w.ID == r.ID {
				n.Batch = append(n.Batch[:i], n.Batch[i+1:]...)
				p.Waiting--
				p.trim(dispatch.ExecutorID(e))
				return
			}
		}
	}
}
