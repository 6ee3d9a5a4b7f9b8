package tc

import "github.com/harpagon/harpagon/scheduler/dispatch"

// Relief: with free starts, an idle executor on a device of its own takes what waits for
// busy executors of other groups, too, where it is done no later than there: batches that
// are closed, and what others still collect as far as there is room in a batch of its own
// that is due, or executors could keep up with batches so small. The schedules of a plan
// divide the stream by what profiles say: where batches take longer, one group falls behind
// while another runs small batches, or none.

// relieve moves such requests to the queue of a group that has an idle executor.
func (p *tc) relieve(at int32) {
	g := &p.groups[at]
	if !p.relieves(g) {
		return
	}
	for i := range p.groups {
		o := &p.groups[i]
		if o.queue.n == 0 || len(o.idle) > 0 || o.shared && p.asks {
			continue
		}
		for range p.relief(g, int32(i)) {
			p.move(g, o)
		}
	}
}

// relieves says whether the group may take what waits in others.
func (p *tc) relieves(g *group) bool {
	return len(p.groups) > 1 && len(g.idle) > 0 && g.queue.n < g.batch && !(g.shared && p.asks)
}

// relief is how many of the oldest requests of another group, which has no idle executor,
// the group is to take.
func (p *tc) relief(g *group, from int32) int {
	o := &p.groups[from]
	own := g.queue.n
	n := min(g.batch-own, o.queue.n)
	if n > o.closed && g.closed == 0 && !p.keepsUp(g, own+n) {
		n = o.closed
	}
	there := p.soonest(from) + p.lately(o, min(o.batch, o.queue.n))
	for ; n > 0; n-- {
		if p.now+p.lately(g, own+n) <= there {
			break
		}
	}
	for i := range n {
		if d := o.queue.at(i).Deadline; d != 0 && d < p.now+p.lately(g, own+n) {
			return i
		}
	}
	return n
}

// soonest is when the first executor of a group should be free, by the profile.
func (p *tc) soonest(at int32) dispatch.Time {
	soonest := never
	for i := range p.execs {
		if e := &p.execs[i]; e.up && e.group == at {
			soonest = min(soonest, e.expected())
		}
	}
	return max(soonest, p.now)
}

// move gives the oldest request of one group to another: closed, if it was.
func (p *tc) move(g, o *group) {
	closed := o.closed > 0
	o.closed = max(0, o.closed-1)
	if g.queue.n == 0 {
		g.since = p.now
	}
	if at := g.queue.insert(o.queue.pop()); at < g.closed {
		g.closed++
	} else if closed {
		g.closed = at + 1
	}
}
