package tc

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Free starts: what EarlyAlways does. A plan for random arrivals, or one whose
// items multiply on the way, promises nothing to the single request, and time
// that a device idles away cannot be made up for. So an idle executor takes what
// waits, in three cases not at once:
//
//   - On a device that others share, while it is busy: the one whose request has
//     the least time left is asked first when it is idle again (Arbiter.Next).
//
//   - Where others on the device have made promises: as in tc_early.go.
//
//   - On devices of its own, where executors could not keep up with batches so
//     small: at the measured rate T, batches of k keep T·d(k)/k of n executors
//     busy. Beyond freeShare of them a batch waits, as the schedule of the plan
//     has it (spared), so that executors take turns and batches fill.
//
// How long a batch will take is judged by what batches have lately taken. A first
// request that would hold its batch below freeKeep of what it could be is given
// up: under overload those that are nearly late would otherwise make every batch
// small.
const (
	freeShare = 0.7
	freeKeep  = 0.5
)

// takeFree moves what is to start now to p.batch, up to one batch, and drops
// what would be late in it.
func (p *tc) takeFree(at int32, out []dispatch.Action) ([]dispatch.Action, bool) {
	g := &p.groups[at]
	drop, size := p.cutFree(g)
	if size == 0 {
		return out, false
	}
	switch {
	case g.shared && p.asks:
		if !p.turn(g, p.next(g, drop), g.pace.Of(p.now, g.durations[size-1])) {
			return out, false
		}
	case g.closed == 0 && !p.keepsUp(g, size) && !p.spared(at, p.now+g.durations[size-1], size >= g.queue.n):
		return out, false
	}
	for range drop {
		out = append(out, dispatch.Action{Act: dispatch.Drop, Request: p.pop(g).ID, Reason: dispatch.Late})
	}
	end := p.now + g.pace.Of(p.now, g.durations[size-1])
	for range size {
		r := p.pop(g)
		if r.Deadline != 0 && r.Deadline < end { // its caller's, sooner than that of the first
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
			continue
		}
		p.batch = append(p.batch, r.ID)
	}
	return out, true
}

// turn says whether the group may take its shared device now: when that is idle,
// and others' promises bear it or the batch is due by the plan.
func (p *tc) turn(g *group, first *dispatch.Request, takes dispatch.Time) bool {
	before := g.again
	g.again = never
	ok := p.granted(g, first, takes)
	promised := g.again != never // refused for a promise, not because the device is busy
	g.again = min(g.again, before)
	return ok || promised && g.closed > 0 && g.hold <= p.now
}

// cutFree says how many of the first requests to give up, and how many of the
// next to run as one batch; 0 where none waits.
func (p *tc) cutFree(g *group) (drop, size int) {
	n := g.queue.n + p.early.n
	for drop < n {
		most := min(g.batch, n-drop)
		size = most
		for size > 0 && p.lateIn(g, p.next(g, drop), size) {
			size--
		}
		if size > 0 && float64(size) >= freeKeep*float64(most) {
			return drop, size
		}
		drop++
	}
	return drop, 0
}

func (p *tc) lateIn(g *group, r *dispatch.Request, size int) bool {
	return late(r, p.now, g.pace.Of(p.now, g.durations[size-1]))
}

// keepsUp says whether the executors that are up could serve the measured rate
// in batches of that size.
func (p *tc) keepsUp(g *group, size int) bool {
	ups := 0
	for i := range p.groups {
		ups += p.groups[i].ups
	}
	busy := p.meter.Rate * g.pace.Of(p.now, g.durations[size-1]).Seconds() / float64(size)
	return busy <= freeShare*float64(ups)
}
