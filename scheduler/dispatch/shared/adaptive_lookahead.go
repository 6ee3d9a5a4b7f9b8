package shared

import "github.com/harpagon/harpagon/scheduler/dispatch"

// How far adaptive looks ahead.
const (
	lookaheadDevices = 16 // executors at most: in a large cluster they even out by themselves
	lookaheadTurns   = 24 // executors that the model is given, one after the other
	lookaheadSteps   = 16 // of giving up requests, over all turns together; one is as small a part of the target batch, or a request
	lookaheadMost    = 4  // target batches above which this is an overload that outlasts all turns
)

// lookahead plays the next turns of a model, with the requests that wait and
// others that come evenly at its rate, and finds how many of the first to give
// up now so that most are served over all turns. What the present batch gains
// by giving up a request may be lost if it would have fitted into a later one;
// and a batch that stays small now makes all that follow late.
//
// Of two candidates that gave up as many in as many turns, the one that has come
// further along the line has served more and leaves the newer requests, so
// only that one is followed: at most turns·steps²/2 batches are tried.
type lookahead struct {
	turns      [lookaheadTurns]dispatch.Time
	ends       [lookaheadDevices]dispatch.Time
	candidates [lookaheadSteps]candidate // by the steps given up
	next       [lookaheadSteps]candidate
}

// candidate is the best of those that gave up as much.
type candidate struct {
	reach int // place in the line up to which requests were served or given up; -1 where there is none
	first int // steps given up at the first turn
}

// view is the upcoming line as lookahead sees it.
type view struct {
	q    *line
	s    *offer // of the first turn
	plan profile
	now  dispatch.Time
	wait dispatch.Time // from arrival to due
	gap  float64       // nanoseconds between arrivals to come
	slow dispatch.Time // delay of a batch in later turns
	unit int           // requests in one step
}

// lookAhead is the batch for the offer by the turns to come, or the given one where these
// are inconclusive.
func (p *adaptive) lookAhead(class int32, s *offer, c cut) cut {
	q, m := &p.Lines[class], &p.Models[class]
	waiting := float64(q.N) / m.Aim
	if p.Fleet.Up > lookaheadDevices || m.Spared < 1 || p.amongMany(class) || waiting < 1 || waiting > lookaheadMost || m.Meter.Rate <= 0 {
		return c
	}
	v := view{
		q: q, s: s, plan: m.Plan, now: p.Now, wait: m.SLO - p.Margin, slow: p.Delay.Of(int(m.Aim)),
		gap: 1e9 / m.Meter.Rate, unit: max(1, int(m.Aim/lookaheadSteps)),
	}
	mean := p.MeanBatchTime
	if mean == 0 {
		mean = float64(m.Plan.of(max(1, m.Target)))
	}
	p.lookahead.upcoming(&p.Fleet, p.Now, mean, p.share(class))
	drop, ok := p.lookahead.best(&v)
	if !ok || drop >= q.N {
		return c
	}
	size := s.largest(q.N-drop, q.due(drop))
	if size == 0 {
		return c
	}
	return cut{drop: drop, size: size}
}

// share is every how many executors the model is given one, by the needs of
// all models.
func (p *adaptive) share(class int32) float64 {
	if need := p.Need[class]; need > 0 {
		return max(1, p.Needed/need)
	}
	return 1
}

// amongMany reports whether the model is given so few of the executors that its turns are anyone's
// guess.
func (p *adaptive) amongMany(class int32) bool { return p.share(class) > manyShare }

// upcoming notes when the model will be given executors: every so many of
// those that are or become free, and again a typical batch later.
func (f *lookahead) upcoming(fleet *dispatch.Fleet, now dispatch.Time, mean, every float64) {
	ends := f.soonest(fleet, now)
	for i := range f.turns {
		j := int(float64(i) * every)
		f.turns[i] = ends[j%len(ends)] + dispatch.Time(mean*float64(j/len(ends)))
	}
}

// soonest is when the executors are or become free, the soonest first.
func (f *lookahead) soonest(fleet *dispatch.Fleet, now dispatch.Time) []dispatch.Time {
	ends := f.ends[:0]
	for range fleet.Opens {
		ends = append(ends, now)
	}
	for _, e := range fleet.Ends.Entries() {
		at := max(now, e.At+fleet.Lead)
		i := len(ends)
		ends = append(ends, at)
		for ; i > 0 && ends[i-1] > at; i-- {
			ends[i] = ends[i-1]
		}
		ends[i] = at
	}
	return ends
}

// best is how many requests to give up now; not ok where more would have to go
// than lookahead looks at.
func (f *lookahead) best(v *view) (drop int, ok bool) {
	if f.all(v) {
		return 0, true
	}
	for i := range f.candidates {
		f.candidates[i].reach = -1
	}
	f.candidates[0] = candidate{}
	for turn := range f.turns {
		f.turn(v, turn)
	}
	best, most := -1, -1
	for given, w := range f.candidates {
		if served := w.reach - given*v.unit; w.reach >= 0 && served > most {
			best, most = given, served
		}
	}
	if best < 0 || best == lookaheadSteps-1 {
		return 0, false
	}
	return f.candidates[best].first * v.unit, true
}

// all reports whether nothing has to go at all.
func (f *lookahead) all(v *view) bool {
	reach, come := 0, 0
	for turn, at := range f.turns {
		come = v.q.N + int(float64(at-v.now)/v.gap)
		if reach == come {
			continue
		}
		size := v.fit(turn, at, reach, come)
		if size == 0 {
			return false
		}
		reach += size
	}
	return reach == come
}

// turn follows every candidate through one more turn.
func (f *lookahead) turn(v *view, turn int) {
	at := f.turns[turn]
	come := v.q.N + int(float64(at-v.now)/v.gap)
	for i := range f.next {
		f.next[i].reach = -1
	}
	for given, w := range f.candidates {
		if w.reach < 0 {
			continue
		}
		last := -1
		for more := 0; given+more < lookaheadSteps; more++ {
			from, size := w.reach+more*v.unit, 0
			if from < come {
				if size = v.fit(turn, at, from, come); size == 0 {
					continue // too late for it: it has to go
				}
			}
			reach := from + size
			if first := w.first; reach > last {
				last = reach
				if turn == 0 {
					first = more
				}
				if reach > f.next[given+more].reach {
					f.next[given+more] = candidate{reach, first}
				}
			}
			if reach >= come {
				break // nothing is gained by giving up more
			}
		}
	}
	f.candidates, f.next = f.next, f.candidates
}

// fit is the largest batch from that place of the line on.
func (v *view) fit(turn int, at dispatch.Time, from, come int) int {
	due := v.now + dispatch.Time(float64(from-v.q.N+1)*v.gap) + v.wait
	if from < v.q.N {
		due = v.q.due(from)
	}
	if turn == 0 {
		return v.s.largest(come-from, due)
	}
	return min(come-from, v.plan.fit(due-at-v.slow))
}
