package shared

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// What a policy gives up in a step is not dropped before its end. Lateness is judged by
// profiles, with a margin before every deadline, and by what is best for the batches
// behind; an executor that idles all the same when all has been decided costs nothing.
// So it takes what was given up, as far as that can still be in time, by the deadline
// itself and by what batches have lately taken.

// givenUp is a request that nothing is held back for any more.
type givenUp struct {
	waiter
	class int32
}

// run is a batch that was launched; its size is 0 where there is none.
type run struct {
	Class, Size int32
	Begin       dispatch.Time
}

func (p *base) giveUp(class int32, w waiter) { p.late = append(p.late, givenUp{w, class}) }

// settle closes a step: idle executors take what they can of what was given up, and
// the rest is dropped as Late.
func (p *base) settle(out []dispatch.Action) []dispatch.Action {
	known := false // who is first
	for i := 0; i < len(p.late); {
		id, best := dispatch.ExecutorID(-1), 0
		for g := range p.Fleet.Open {
			if p.Fleet.Open[g].N == 0 {
				continue
			}
			if !known {
				p.firsts[g] = p.first(g)
			}
			e := p.firsts[g]
			b := p.recoverable(i, e)
			if b == 0 {
				if other := p.soonest(g); other != e {
					e, b = other, p.recoverable(i, other)
				}
			}
			if b > best {
				id, best = e, b
			}
		}
		known = best == 0
		i, out = p.recover(i, best, id, out)
	}
	p.late = p.late[:0]
	return out
}

// recoverable is how many of those given up, from the i-th on, the executor could do in
// one batch and in time; 0 where it could not even do the first.
func (p *base) recoverable(i int, id dispatch.ExecutorID) int {
	class := p.late[i].class
	s, pace := p.offer(class, id), &p.Models[class].Paces[p.Fleet.Execs[id].Group]
	due, n := never, 0
	for _, w := range p.late[i:min(len(p.late), i+len(s.table))] {
		due = min(due, w.Due+w.Kept)
		if w.class != class || s.begin(n+1)+pace.Of(p.Now, s.table.of(n+1)) > due {
			break
		}
		n++
	}
	return n
}

// recover starts b of those given up, from the i-th on, or drops the i-th where b is 0.
// It returns the place of the next.
func (p *base) recover(i, b int, id dispatch.ExecutorID, out []dispatch.Action) (int, []dispatch.Action) {
	if b == 0 {
		return i + 1, append(out, dispatch.Action{Act: dispatch.Drop, Request: p.late[i].ID, Reason: dispatch.Late})
	}
	from := len(p.batch)
	for _, w := range p.late[i : i+b] {
		p.batch = append(p.batch, w.ID)
	}
	return i + b, p.launch(p.late[i].class, id, from, out)
}

// learn takes in how long the batch took that an executor has ended. One that was sent ahead
// begins then.
func (p *base) learn(ev *dispatch.Event) {
	if !p.Fleet.Has(ev.Executor) || int(ev.Executor) >= len(p.Runs) {
		return
	}
	sent := &p.Runs[ev.Executor]
	r, e := sent[0], &p.Fleet.Execs[ev.Executor]
	sent[0], sent[1] = sent[1], run{}
	sent[0].Begin = max(sent[0].Begin, p.Now)
	if e.Pending == 0 || r.Size == 0 || int(r.Class) >= len(p.Models) {
		return
	}
	m := &p.Models[r.Class]
	profiled, away := m.Tables[e.Group].of(int(r.Size)), max(p.Now, ev.At)-r.Begin
	p.Slips.learn(p.Now, ev.Executor, away-profiled, &p.Fleet)
	m.Paces[e.Group].Learn(p.Now, profiled, ev.Took, away)
}

// Batches are away longer than profiled: on their way there and back, and where a host is
// slow. What most executors need is kept before every deadline. An executor that is later
// than they are needs more, so its batches are smaller, and others are taken before it.

// slips is how late the executors of a cluster are.
type slips struct {
	Execs   []dispatch.Lateness // by ExecutorID
	Brief   []slip              // their summaries, by ExecutorID, compact because all are read often
	Common  dispatch.Time       // the median of those that are up
	Apart   int                 // how many were far later than that when it was worked out
	Learned int                 // batches since then
	sorted  []dispatch.Time     `json:"-"`
}

// slip is how late an executor is until a time.
type slip struct{ Of, Until dispatch.Time }

const (
	// slipShare is the part of a model's time that is kept before its deadlines at most.
	slipShare = 10

	// slipApart is how many times the median an executor is later than the others.
	slipApart = 2

	// slipLook is how many executors are looked at, on average, for a batch that has ended.
	slipLook = 4
)

// learn takes in a batch that was away so much longer than profiled.
func (s *slips) learn(now dispatch.Time, id dispatch.ExecutorID, longer dispatch.Time, f *dispatch.Fleet) {
	for int(id) >= len(s.Execs) {
		s.Execs, s.Brief = append(s.Execs, dispatch.Lateness{}), append(s.Brief, slip{})
	}
	s.Execs[id].Learn(now, longer)
	s.Brief[id].Of, s.Brief[id].Until = s.Execs[id].Lasts()
	if s.Learned++; s.Learned*slipLook >= f.Up {
		s.look(now, f)
	}
}

// of is how late the executor is.
func (s *slips) of(now dispatch.Time, id dispatch.ExecutorID) dispatch.Time {
	if b := &s.Brief[id]; now <= b.Until {
		return b.Of
	}
	return 0
}

// look compares the executors again.
func (s *slips) look(now dispatch.Time, f *dispatch.Fleet) {
	s.Learned, s.sorted = 0, s.sorted[:0]
	for i := range s.Execs {
		if f.Has(dispatch.ExecutorID(i)) {
			s.sorted = append(s.sorted, s.of(now, dispatch.ExecutorID(i)))
		}
	}
	if len(s.sorted) == 0 {
		return
	}
	slices.Sort(s.sorted)
	s.Common = s.sorted[(len(s.sorted)-1)/2]
	at, _ := slices.BinarySearch(s.sorted, slipApart*s.Common+1)
	s.Apart = len(s.sorted) - at
}

// forget drops what was measured of an executor that was replaced or is gone.
func (s *slips) forget(now dispatch.Time, id dispatch.ExecutorID, f *dispatch.Fleet) {
	if id >= 0 && int(id) < len(s.Execs) {
		s.Execs[id], s.Brief[id] = dispatch.Lateness{}, slip{}
		s.look(now, f)
	}
}

// beyond is how much later than most the executor is; 0 where it is about as they are.
func (s *slips) beyond(now dispatch.Time, id dispatch.ExecutorID) dispatch.Time {
	if s.Apart == 0 || int(id) >= len(s.Execs) {
		return 0
	}
	if late := s.of(now, id); late > slipApart*s.Common {
		return late - s.Common
	}
	return 0
}

// kept is what is kept before the deadlines of a model: the margin, or as much longer
// than profiled as batches of most executors have lately been away.
func (p *base) kept(class int32) dispatch.Time {
	return max(p.Margin, min(p.Slips.Common, p.Models[class].SLO/slipShare))
}

// first is the open executor of a group that is least later than most, of those the one of
// the lowest number; there must be one.
func (p *base) first(group int) dispatch.ExecutorID {
	open := &p.Fleet.Open[group]
	best := dispatch.ExecutorID(open.First())
	if p.Slips.Apart == 0 || open.N == 1 {
		return best
	}
	least := dispatch.Never
	for i := range open.All {
		late := p.Slips.beyond(p.Now, dispatch.ExecutorID(i))
		if late < least {
			best, least = dispatch.ExecutorID(i), late
		}
		if late == 0 {
			break
		}
	}
	return best
}

// pick is the open executor that is offered the largest batch, and that batch, the way it is
// formed. One that is later than most is not offered a batch that would give up requests
// which others need not.
func (p *base) pick(class int32, form func(*offer) cut) (dispatch.ExecutorID, cut) {
	id, best := dispatch.ExecutorID(-1), cut{}
	for g := range p.Fleet.Open {
		if p.Fleet.Open[g].N == 0 {
			continue
		}
		e := p.first(g)
		s := p.offer(class, e)
		c := form(&s)
		if c.size == 0 {
			if other := p.soonest(g); other != e {
				e, s = other, p.offer(class, other)
				c = form(&s)
			}
		}
		if s.late > 0 {
			if s.late = 0; form(&s).drop < c.drop {
				c = cut{}
			}
		}
		if id < 0 || c.size > best.size {
			id, best = e, c
		}
	}
	return id, best
}

// soonest is the open executor of a group that is free first, of those the one of the
// lowest number; there must be one. Over a network a busy one is open, too, as soon as a
// large batch would be there no sooner than it is free: for a smaller one that may be too
// late, while others idle.
func (p *base) soonest(group int) dispatch.ExecutorID {
	open := &p.Fleet.Open[group]
	best := dispatch.ExecutorID(open.First())
	if p.Fleet.Lead == 0 || open.N == 1 {
		return best
	}
	for i := range open.All {
		if id := dispatch.ExecutorID(i); p.Fleet.Execs[id].Free < p.Fleet.Execs[best].Free {
			best = id
		}
	}
	return best
}
