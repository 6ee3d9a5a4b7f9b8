package shared

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Batches are away longer than profiled: on their way there and back, and where a host is
// slow. What most executors need is kept before every deadline. An executor that is later
// than they are needs more, so its batches are smaller, and others are taken before it.

// slips is how late the executors of a pool are.
type slips struct {
	execs   []dispatch.Lateness // by ExecutorID
	brief   []slip              // what they say, by ExecutorID: all are looked at time and again
	common  dispatch.Time       // the median of those that are up
	apart   int                 // how many were far later than that when it was worked out
	learned int                 // batches since then
	sorted  []dispatch.Time     `record:"-"`
}

// slip is how late an executor is until a time.
type slip struct{ of, until dispatch.Time }

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
	for int(id) >= len(s.execs) {
		s.execs, s.brief = append(s.execs, dispatch.Lateness{}), append(s.brief, slip{})
	}
	s.execs[id].Learn(now, longer)
	s.brief[id].of, s.brief[id].until = s.execs[id].Lasts()
	if s.learned++; s.learned*slipLook >= f.Up {
		s.look(now, f)
	}
}

// of is how late the executor is.
func (s *slips) of(now dispatch.Time, id dispatch.ExecutorID) dispatch.Time {
	if b := &s.brief[id]; now <= b.until {
		return b.of
	}
	return 0
}

// look compares the executors anew.
func (s *slips) look(now dispatch.Time, f *dispatch.Fleet) {
	s.learned, s.sorted = 0, s.sorted[:0]
	for i := range s.execs {
		if f.Has(dispatch.ExecutorID(i)) {
			s.sorted = append(s.sorted, s.of(now, dispatch.ExecutorID(i)))
		}
	}
	if len(s.sorted) == 0 {
		return
	}
	slices.Sort(s.sorted)
	s.common = s.sorted[(len(s.sorted)-1)/2]
	at, _ := slices.BinarySearch(s.sorted, slipApart*s.common+1)
	s.apart = len(s.sorted) - at
}

// forget is told that an executor is another than before, or gone.
func (s *slips) forget(now dispatch.Time, id dispatch.ExecutorID, f *dispatch.Fleet) {
	if id >= 0 && int(id) < len(s.execs) {
		s.execs[id], s.brief[id] = dispatch.Lateness{}, slip{}
		s.look(now, f)
	}
}

// beyond is how much later than most the executor is; 0 where it is about as they are.
func (s *slips) beyond(now dispatch.Time, id dispatch.ExecutorID) dispatch.Time {
	if s.apart == 0 || int(id) >= len(s.execs) {
		return 0
	}
	if late := s.of(now, id); late > slipApart*s.common {
		return late - s.common
	}
	return 0
}

// kept is what is kept before the deadlines of a model: the margin, or as much longer
// than profiled as batches of most executors have lately been away.
func (p *pool) kept(class int32) dispatch.Time {
	return max(p.margin, min(p.slips.common, p.models[class].slo/slipShare))
}

// first is the open executor of a group that is least later than most, of those the one of
// the lowest number; there must be one.
func (p *pool) first(group int) dispatch.ExecutorID {
	open := &p.fleet.Open[group]
	best := dispatch.ExecutorID(open.First())
	if p.slips.apart == 0 || open.N == 1 {
		return best
	}
	least := dispatch.Never
	for i := range open.All {
		late := p.slips.beyond(p.now, dispatch.ExecutorID(i))
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
func (p *pool) pick(class int32, form func(*offer) cut) (dispatch.ExecutorID, cut) {
	id, best := dispatch.ExecutorID(-1), cut{}
	for g := range p.fleet.Open {
		if p.fleet.Open[g].N == 0 {
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
func (p *pool) soonest(group int) dispatch.ExecutorID {
	open := &p.fleet.Open[group]
	best := dispatch.ExecutorID(open.First())
	if p.fleet.Lead == 0 || open.N == 1 {
		return best
	}
	for i := range open.All {
		if id := dispatch.ExecutorID(i); p.fleet.Execs[id].Free < p.fleet.Execs[best].Free {
			best = id
		}
	}
	return best
}
