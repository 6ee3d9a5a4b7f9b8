package shared

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// How far adaptive looks ahead.
const (
	lookaheadDevices = 16   // executors at most: in a large cluster they even out by themselves
	lookaheadTurns   = 24   // executors that the model is given, one after the other
	lookaheadSteps   = 16   // of giving up requests, over all turns together
	lookaheadShare   = 16   // the part of the target batch that one step gives up; at least one request
	lookaheadLeast   = 1.1  // target batches that must wait for it to matter
	lookaheadMost    = 4    // target batches above which this is an overload that outlasts all turns
	lookaheadGain    = 0.25 // of what giving up requests for larger batches may gain, at least

	rateMarginMost = 0.15 // of the requests to come

	manyShare = 3.5 // executors of which a model is given one, from which on it is one among many
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

// view is what lookahead knows of the line to come.
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

// lookAhead is the batch for the offer, by looking at the turns to come, or the
// given one where they do not tell.
func (p *adaptive) lookAhead(class int32, s *offer, c cut) cut {
	q, m := &p.lines[class], &p.models[class]
	waiting := float64(q.n) / m.aim
	if p.fleet.Up > lookaheadDevices || m.spared < lookaheadGain || p.amongMany(class) || waiting < lookaheadLeast || waiting > lookaheadMost || m.meter.Rate <= 0 {
		return c
	}
	v := view{
		q: q, s: s, plan: m.plan, now: p.now, wait: m.slo - p.margin, slow: p.delay.Of(int(m.aim)),
		gap: 1e9 / (m.meter.Rate * (1 - p.rateMargin(m))), unit: max(1, int(m.aim/lookaheadShare)),
	}
	mean := p.meanBatchTime
	if mean == 0 {
		mean = float64(m.plan.of(max(1, m.target)))
	}
	p.lookahead.upcoming(&p.fleet, p.now, mean, p.share(class))
	drop, ok := p.lookahead.best(&v)
	if !ok || drop >= q.n {
		return c
	}
	size := s.largest(q.n-drop, q.due(drop))
	if size == 0 {
		return c
	}
	return cut{drop: drop, size: size}
}

// rateMargin is by how much fewer requests are counted on than come on average, as a share. What is given
// up now is lost, while a later turn can still give up if more come: so lookahead looks at a stream
// that is slower by so many standard deviations of what comes over all its turns. Where most of a batch's
// time is fixed, a small one costs most, and there is no margin; nor for a lone executor, whose turns
// are so far apart that nothing is gained.
func (p *adaptive) rateMargin(m *modelState) float64 {
	if p.fleet.Up < 2 {
		return 0
	}
	return min(rateMarginMost, p.rules.rateMargin*m.slender/math.Sqrt(lookaheadTurns*m.aim))
}

// share is every how many executors the model is given one, by the needs of
// all models.
func (p *adaptive) share(class int32) float64 {
	if need := p.need[class]; need > 0 {
		return max(1, p.needed/need)
	}
	return 1
}

// amongMany reports whether the model is given so few of the executors that its turns are anyone's
// guess.
func (p *adaptive) amongMany(class int32) bool { return p.share(class) > manyShare }

// farthest is the turn beyond which nothing is looked at; a model that hardly
// needs executors has its turns far apart.
const farthest = 1e6

// upcoming notes when the model will be given executors: every so many of
// those that are or become free, and again a typical batch later.
func (f *lookahead) upcoming(fleet *dispatch.Fleet, now dispatch.Time, mean, every float64) {
	ends := f.soonest(fleet, now)
	for i := range f.turns {
		j := int(min(float64(i)*every, farthest))
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
		come = v.q.n + int(float64(at-v.now)/v.gap)
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
	come := v.q.n + int(float64(at-v.now)/v.gap)
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
	due := v.now + dispatch.Time(float64(from-v.q.n+1)*v.gap) + v.wait
	if from < v.q.n {
		due = v.q.due(from)
	}
	if turn == 0 {
		return v.s.largest(come-from, due)
	}
	return min(come-from, v.plan.fit(due-at-v.slow))
}

// Tuning of burst.
const (
	burstMemory = 10e9 // nanoseconds over which the counts fade
	burstLeast  = 1.1  // crowding from which on arrivals come in bursts
	burstSure   = 4.0  // standard deviations of what Poisson arrivals would show, on top
	burstWithin = 0.5  // of the crowding is within buckets, at least; where less is, the rate has changed
	burstQuiet  = 24   // a burst is over after this part of the time that its first request can wait

	pauseGaps = 10 // mean gaps between bursts without a request until it is taken that none comes soon
	pausePart = 12 // and this part of the time that a request can wait, at least

	resumeLeast = 50 * time.Millisecond // a pause that leaves nothing of the rate, at least
)

// burst reports whether the requests of a model come in bursts, or have paused, by how many more
// come soon after a request than the mean rate has it: the mean of
// count·(count - 1) over buckets of time, divided by the square of the mean
// count. Poisson arrivals have 1, even ones less. Where the rate changes, neighbouring buckets
// change alike: there the mean product of their counts takes the place of that square, which
// would tell of bursts for a minute after a load has fallen to a thirtieth.
type burst struct {
	width   dispatch.Time // of a bucket: how long a request can wait
	end     dispatch.Time // of the running bucket
	count   int
	buckets float64       // fading sums over the buckets
	first   float64       // of the count
	second  float64       // of count·(count - 1)
	pairs   float64       // of count·(count of the bucket before)
	before  float64       // count of the last bucket that ended
	alike   float64       // what second would be if they came at random
	crowded bool          // they tell of bursts
	excess  float64       // the crowding beyond that of Poisson arrivals; 0 where they do not come in bursts
	last    dispatch.Time // when a request came last
	look    dispatch.Time // when to see whether the stream has paused
}

func newBurst(wait dispatch.Time) burst { return burst{width: max(1, wait)} }

// hit counts an arrival.
func (b *burst) hit(now dispatch.Time) {
	if now >= b.end {
		b.close(now)
	}
	b.count++
	b.last = now
}

// over is when the running burst ends if nothing more comes; sooner where waiting for the
// rest of it gains only a part of what it may.
func (b *burst) over(gains float64) dispatch.Time {
	return b.last + dispatch.Time(gains*float64(b.width/burstQuiet))
}

// paused reports whether the stream has paused at that rate: nothing has come for so long that
// nothing will soon. If not, look is when to ask again.
func (b *burst) paused(now dispatch.Time, rate float64) bool {
	if now < b.look {
		return false
	}
	end := b.last + b.pause(rate)
	b.look = min(end, now+b.width)
	return now >= end
}

// resumes reports whether an arrival at that instant is the first after a pause that leaves
// nothing of the rate: twice as long as it takes to tell one, since to be wrong costs more.
func (b *burst) resumes(now dispatch.Time, rate float64) bool {
	return now-b.last >= resumeLeast && now-b.last >= 2*b.pause(rate)
}

// pause is how long nothing comes at that rate once a stream has paused. Of Poisson arrivals
// that errs once in e^pauseGaps requests. Others come in groups, with longer gaps between: the
// variance of the count over its mean, which is 1 of Poisson arrivals, is their size.
func (b *burst) pause(rate float64) dispatch.Time {
	if b.first == 0 || rate <= 0 {
		return never / 4
	}
	group := 1 + max(0, b.second-b.alike)/b.first
	return dispatch.Time(min(float64(never/4), max(float64(b.width)/pausePart, pauseGaps*group/rate*1e9)))
}

// close adds up the bucket that has ended, and the empty ones after it.
func (b *burst) close(now dispatch.Time) {
	if b.end == 0 {
		b.end = now + b.width
		return
	}
	passed := 1 + (now-b.end)/b.width
	fade := math.Exp(-float64(passed) * float64(b.width) / burstMemory)
	n := float64(b.count)
	b.first = (b.first + n) * fade
	b.second = (b.second + n*(n-1)) * fade
	b.pairs = (b.pairs + n*b.before) * fade
	b.buckets = (b.buckets + float64(passed)) * fade
	b.count, b.before = 0, n
	if passed > 1 { // others were empty
		b.before = 0
	}
	b.end += passed * b.width
	mean := b.first / b.buckets
	chance := math.Sqrt(2/b.buckets) / mean // of the crowding of Poisson arrivals
	b.alike = b.first * mean
	if b.second-b.pairs < burstWithin*(b.second-b.alike) {
		b.alike = b.pairs
	}
	b.crowded = b.first > 0 && b.second > (burstLeast+burstSure*chance)*b.alike
	b.excess = 0
	if b.crowded {
		b.excess = b.second/b.alike - 1
	}
}

// runs reports whether a burst goes on at that instant; see over.
func (b *burst) runs(now dispatch.Time, gains float64) bool {
	return b.crowded && now < b.over(gains)
}
