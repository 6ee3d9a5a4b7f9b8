package tc

import (
	"math"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Free starts: what EarlyAlways does. A plan for random arrivals, or one whose
// items multiply on the way, promises nothing to the single request, and time
// that a device idles away cannot be made up for. So an idle executor takes what
// waits, in three cases not at once:
//
//   - On a device that others share, while it is busy: the one whose request has
//     the least time left comes first when it is idle again (Arbiter.Next).
//
//   - Where others on the device have made promises: as in early.go.
//
//   - On devices of its own, where a full batch does more: at the measured rate T
//     the b-k that are missing take (b-k)/T to come, and k/d(k) is less than
//     b/(d(b) + (b-k)/T). Then a batch waits, as the schedule of the plan has it
//     (canSpare), so that executors take turns and batches fill.
//
// How long a batch will take is judged by what batches have lately taken. A first
// request that would hold its batch below freeKeep of what it could be is given
// up: under overload those that are nearly late would otherwise make every batch
// small. Where their times vary, a batch that waits closes freeClose spreads before it would
// be late, and holds no more than what is in time with freeSure of them, as long as that is
// freeKeep of what it could be: what ends late has been computed in vain everywhere.
const (
	freeKeep  = 0.5
	freeClose = 2.0
	freeSure  = 1.5
)

// Where requests come in that nothing has been done for yet, and a queue has stood for a
// while, more come than can be served: some of those that wait will be late somewhere, and
// here that costs nothing. The time that the plan gives the modules below is kept for them
// then (yields). A burst that passes is no such queue: no other request would take the
// places of those given up. standShare is the share of the time, over that of the modules
// below, in which more than a full batch must have waited.
const standShare = 0.5

// updateQueue follows how long a queue has stood.
func (p *tc) updateQueue(now dispatch.Time) {
	if p.Below == 0 || now <= p.Now {
		return
	}
	x := 0.0
	if p.Waiting > p.Full {
		x = 1
	}
	if x == p.Standing {
		return
	}
	p.Standing += (x - p.Standing) * -math.Expm1(-float64(now-p.Now)/float64(p.Below))
}

// yields reports whether a request makes room in a batch that ends then for those behind it,
// of whom so many wait.
func (p *tc) yields(r *dispatch.Request, end dispatch.Time, behind, batch int) bool {
	return p.Standing > standShare && behind >= batch && r.Deadline != 0 && r.Deadline-p.Below < end
}

// takeFree moves what is to start now to p.batch, up to one batch, and gives up
// what would be late in it.
func (p *tc) takeFree(at int32) bool {
	g := &p.Groups[at]
	p.steal(at)
	drop, size := p.cut(g, g.Queue.N+p.Early.N, p.lately)
	if size == 0 {
		return false
	}
	if p.Together {
		size = p.evenly(at, size, g.Queue.N+p.Early.N-drop)
	}
	switch {
	case g.Shared && p.Asks:
		if !p.turn(g, p.next(g, drop), p.lately(g, size)) {
			return false
		}
	case g.Closed == 0 && !p.servesAsMuch(g, size) && !p.canSpare(at, p.Now+g.Durations[size-1], size >= g.Queue.N):
		return false
	}
	for range drop {
		p.Given = append(p.Given, p.pop(g))
	}
	p.take(g, size, p.Now+p.lately(g, size))
	return true
}

// evenly is how many of a batch of that size to start on one of several idle executors,
// where so many wait: no more than its even part, as smaller batches take less time and the
// others would idle. Where a full batch does more (servesAsMuch), and the
// schedule of the plan needs this one before, the batch stays as it is.
func (p *tc) evenly(at int32, size, waiting int) int {
	g := &p.Groups[at]
	n := len(g.Idle)
	part := (waiting + n - 1) / n
	if g.Shared || part >= size || !p.servesAsMuch(g, part) && !p.canSpare(at, p.Now+g.Durations[part-1], false) {
		return size
	}
	return part
}

// turn reports whether the group may take its shared device now: when that is idle,
// and others' promises bear it or the batch is due by the plan.
func (p *tc) turn(g *group, first *dispatch.Request, takes dispatch.Time) bool {
	before := g.Again
	g.Again = never
	ok := p.granted(g, first, takes, false)
	promised := g.Again != never // refused for a promise, not because the device is busy
	g.Again = min(g.Again, before)
	return ok || promised && g.Closed > 0 && g.Hold <= p.Now
}

// cut reports how many of the first n requests to give up, and how many of the next to run
// as one batch, where a batch of each size takes so long; 0 where none waits.
func (p *tc) cut(g *group, n int, takes func(*group, int) dispatch.Time) (drop, size int) {
	for drop < n {
		first, most := p.next(g, drop), min(g.Batch, n-drop)
		least := freeKeep * float64(most)
		if p.Starts == EarlyWithinPromise && !p.free() {
			least = float64(most) // devices that are used to the full have no time for smaller ones
		}
		if size = 0; p.free() {
			size = p.sized(g, first, most, p.surely)
		}
		if float64(size) < least {
			size = p.sized(g, first, most, takes)
		}
		if size > 0 && float64(size) >= least && !p.yields(first, p.Now+takes(g, size), n-drop-1, g.Batch) {
			return drop, size
		}
		drop++
	}
	return drop, 0
}

// sized is the largest batch, of so many at the most, in which the first request is in time.
func (p *tc) sized(g *group, first *dispatch.Request, most int, takes func(*group, int) dispatch.Time) int {
	for most > 0 && late(first, p.Now, takes(g, most)) {
		most--
	}
	return most
}

// lately is how long a batch of that size takes as others have.
func (p *tc) lately(g *group, size int) dispatch.Time { return g.Pace.Of(p.Now, g.Durations[size-1]) }

// surely is how long nearly every batch of that size has lately taken.
func (p *tc) surely(g *group, size int) dispatch.Time {
	return g.Pace.Within(p.Now, g.Durations[size-1], freeSure)
}

// planned is how long it takes by the profile.
func (p *tc) planned(g *group, size int) dispatch.Time { return g.Durations[size-1] }

// take moves the next requests, so many, to p.batch, but for those of which the caller's
// deadline is sooner than that of the first, and before the end.
func (p *tc) take(g *group, size int, end dispatch.Time) {
	for range size {
		if r := p.pop(g); r.Deadline != 0 && r.Deadline < end {
			p.Given = append(p.Given, r)
		} else {
			p.batch = append(p.batch, r.ID)
		}
	}
}

// servesAsMuch reports whether an executor serves as much by a batch of that size now as by
// waiting for a full one at the measured rate.
func (p *tc) servesAsMuch(g *group, size int) bool {
	if p.Meter.Rate <= 0 {
		return true
	}
	waits := float64(g.Batch-size) / p.Meter.Rate
	return float64(size)*(g.Pace.Of(p.Now, g.Durations[g.Batch-1]).Seconds()+waits) >= float64(g.Batch)*g.Pace.Of(p.Now, g.Durations[size-1]).Seconds()
}

// Stealing: with free starts, an idle executor on a device of its own takes what waits for
// busy executors of other groups, too, where it is done no later than there: batches that
// are closed, and what others still collect as far as there is room in a batch of its own
// that is due, or a full batch would do no more. The schedules of a plan divide the stream
// by profiles: where batches take longer than profiled, one group falls behind while
// another runs small batches, or none.

// steal moves such requests to the queue of a group that has an idle executor.
func (p *tc) steal(at int32) {
	g := &p.Groups[at]
	if !p.maySteal(g) {
		return
	}
	for i := range p.Groups {
		o := &p.Groups[i]
		if o.Queue.N == 0 || len(o.Idle) > 0 || o.Shared && p.Asks {
			continue
		}
		for range p.stealable(g, int32(i)) {
			p.move(g, o)
		}
	}
}

// maySteal reports whether the group may take what waits in others.
func (p *tc) maySteal(g *group) bool {
	return len(p.Groups) > 1 && len(g.Idle) > 0 && g.Queue.N < g.Batch && !(g.Shared && p.Asks)
}

// stealable is how many of the oldest requests of another group, which has no idle executor,
// the group is to take.
func (p *tc) stealable(g *group, from int32) int {
	o := &p.Groups[from]
	own := g.Queue.N
	n := min(g.Batch-own, o.Queue.N)
	if n > o.Closed && g.Closed == 0 && !p.servesAsMuch(g, own+n) {
		n = o.Closed
	}
	there := p.soonest(from) + p.lately(o, min(o.Batch, o.Queue.N))
	for ; n > 0; n-- {
		if p.Now+p.lately(g, own+n) <= there {
			break
		}
	}
	for i := range n {
		if d := o.Queue.at(i).Deadline; d != 0 && d < p.Now+p.lately(g, own+n) {
			return i
		}
	}
	return n
}

// soonest is when the first executor of a group should be free, by the profile.
func (p *tc) soonest(at int32) dispatch.Time {
	soonest := never
	for i := range p.Execs {
		if e := &p.Execs[i]; e.Up && e.Group == at {
			soonest = min(soonest, e.expected())
		}
	}
	return max(soonest, p.Now)
}

// move gives the oldest request of one group to another: closed, if it was.
func (p *tc) move(g, o *group) {
	closed := o.Closed > 0
	o.Closed = max(0, o.Closed-1)
	if g.Queue.N == 0 {
		g.Since = p.Now
	}
	if at := g.Queue.insert(o.Queue.pop()); at < g.Closed {
		g.Closed++
	} else if closed {
		g.Closed = at + 1
	}
}

// settle closes a step for the first groups: what was given up goes to executors that
// idle all the same, as far as it can still be in time there by what batches have
// lately taken and no promise needs the executor before. The rest is dropped as Late.
func (p *tc) settle(groups int, out []dispatch.Action) []dispatch.Action {
	for i := 0; i < len(p.Given); {
		best, n := int32(-1), 0
		for at := range int32(groups) {
			if b := p.recoverable(i, at); b > n {
				best, n = at, b
			}
		}
		if n == 0 {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: p.Given[i].ID, Reason: dispatch.Late})
			i++
			continue
		}
		from := len(p.batch)
		for _, r := range p.Given[i : i+n] {
			p.batch = append(p.batch, r.ID)
		}
		i += n
		out = p.launch(best, from, out)
	}
	p.Given = p.Given[:0]
	return out
}

// recoverable is how many of those given up, from the i-th on, an idle executor of the
// group could do in one batch and in time; 0 where it could not even do the first. On a
// shared device only queued requests ask for the device, not those given up.
func (p *tc) recoverable(i int, at int32) int {
	g := &p.Groups[at]
	if len(g.Idle) == 0 || g.Shared {
		return 0
	}
	due, n := never, 0
	for _, r := range p.Given[i:min(len(p.Given), i+g.Batch)] {
		due = min(due, r.Deadline)
		if p.Now+g.Pace.Of(p.Now, g.Durations[n]) > due {
			break
		}
		n++
	}
	if n > 0 && !p.free() && !p.canSpare(at, p.Now+g.Durations[n-1], false) {
		return 0
	}
	return n
}
