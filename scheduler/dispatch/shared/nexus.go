package shared

import (
	"cmp"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// nexusEpoch is how long a plan of nexus stands while the executors stay the
// same (Symphony's comparison).
const nexusEpoch = 30 * time.Second

// nexus is Nexus's dispatch: see newNexus.
type nexus struct {
	base     // one line, and one model, a session
	classes  []nexusModel
	sessions []session
	cycles   []duty        // by ExecutorID
	planAt   dispatch.Time // when the epoch ends
	stale    bool          // executors came or went since the plan
}

// nexusModel is a model as declared, with what was measured of it.
type nexusModel struct {
	modelState
	sessions []int32
	share    float64 // of its sessions together
}

// session is a model on one executor; its line has the same number. While no
// executor is up every model has one session on none.
type session struct {
	class    int32
	executor dispatch.ExecutorID
	share    float64 // requests per second that it is meant to take
	credit   float64 // of the round robin, in requests
}

// duty is an executor's round over its sessions.
type duty struct {
	sessions []int32
	turn     int
}

// newNexus builds Nexus (SOSP 2019) as Symphony's comparison configures it,
// with one frontend: for an epoch of 30 s models are packed onto executors by
// their rates; a request is dealt to one executor of its model when it
// arrives, round robin by weight; and every executor goes round its models and
// runs what has gathered, with Nexus's early drop. No request changes its
// executor, so that bursts meet full and idle executors side by side.
//
// The packing is that of section 6.1 there: a model that fills executors of
// its own runs the largest batch with 2·l(b) <= SLO; what remains of the rates
// shares executors in duty cycles, each where it fits best. All is stretched,
// or squeezed, to the executors that there are.
func newNexus(o Options) dispatch.Policy {
	p := &nexus{base: newBase(o)}
	for i := range p.models {
		p.classes = append(p.classes, nexusModel{modelState: p.models[i]})
	}
	p.lines, p.models = nil, nil
	return p
}

// Name is "nexus".
func (p *nexus) Name() string { return "nexus" }

// Describe draws the policy for logs and golden transcripts. Its classes are
// sessions: a model on an executor.
func (p *nexus) Describe() string { return p.describe("nexus") }

// Step takes one event and appends the actions that follow from it.
func (p *nexus) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.begin(now, &ev)
	switch ev.Kind {
	case dispatch.Arrive:
		if p.stale || p.now >= p.planAt {
			out = p.plan(out)
		}
		out = p.arrive(ev.Request, out)
	case dispatch.Cancel:
		p.forget(ev.Request)
	case dispatch.ExecutorFree:
		p.fleet.Freed(ev.Executor, p.now)
		out = p.serve(ev.Executor, out)
	case dispatch.ExecutorUp:
		p.fleet.Join(ev.Executor, ev.Group, p.now)
		p.stale = true
	case dispatch.ExecutorGone:
		p.fleet.Leave(ev.Executor)
		p.stale = true
	}
	if p.stale && p.waiting > 0 {
		out = p.plan(out)
	}
	for p.wakes.Next() <= p.now {
		p.expire(p.wakes.Top())
	}
	return p.arm(p.wakes.Next(), p.settle(out))
}

// settle is like that of other clusters, but no request changes its executor.
func (p *nexus) settle(out []dispatch.Action) []dispatch.Action {
	for i := 0; i < len(p.late); {
		class, n := p.late[i].class, 0
		id := p.sessions[class].executor
		if p.fleet.Has(id) && p.fleet.Execs[id].Pending == 0 {
			n = p.recoverable(i, id)
		}
		if i, out = p.recover(i, n, id, out); n > 0 {
			out[len(out)-1].Class = p.sessions[class].class
		}
	}
	p.late = p.late[:0]
	return out
}

// arrive deals the request to the session of its model that has most credit.
func (p *nexus) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	if r.Class < 0 || int(r.Class) >= len(p.classes) {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	c := &p.classes[r.Class]
	c.meter.Hit(p.now)
	best := c.sessions[0]
	for _, i := range c.sessions {
		s := &p.sessions[i]
		s.credit += s.share / c.share
		if s.credit > p.sessions[best].credit {
			best = i
		}
	}
	p.sessions[best].credit--
	if r.Deadline == 0 {
		r.Deadline = r.Arrival + c.slo
	}
	r.Class = best
	out, ok := p.admit(&r, out)
	if !ok {
		return out
	}
	p.expire(best)
	return p.serve(p.sessions[best].executor, out)
}

// forget cancels a request wherever it waits.
func (p *nexus) forget(r dispatch.Request) {
	r.Class = -1 // lines are by session
	p.cancel(&r)
}

// serve runs the next session of an idle executor that has requests.
func (p *nexus) serve(id dispatch.ExecutorID, out []dispatch.Action) []dispatch.Action {
	if !p.fleet.Has(id) || p.fleet.Execs[id].Pending > 0 || int(id) >= len(p.cycles) {
		return out
	}
	d := &p.cycles[id]
	for range d.sessions {
		i := d.sessions[d.turn%len(d.sessions)]
		d.turn++
		q := &p.lines[i]
		if q.n == 0 {
			continue
		}
		s := p.offer(i, id)
		c := cutEarly(q, &s, p.models[i].target)
		p.dropFirst(i, c.drop)
		if c.size > 0 {
			out = p.start(i, id, c.size, out)
			out[len(out)-1].Class = p.sessions[i].class
		}
		p.expire(i)
		if c.size > 0 {
			return out
		}
	}
	return out
}

// nobody is the executor of sessions that have none.
const nobody dispatch.ExecutorID = -1

// piece is what remains of a model's rate after whole executors: to share one.
type piece struct {
	class int32
	batch int
	rate  float64
	cycle float64 // seconds between two batches
}

// node is an executor in the making: pieces that share one duty cycle.
type node struct {
	pieces []piece
	cycle  float64
	busy   float64 // seconds of the cycle that it works
}

// plan packs the models onto the executors anew and deals what waits again.
func (p *nexus) plan(out []dispatch.Action) []dispatch.Action {
	p.planAt, p.stale = p.now+nexusEpoch, false
	waiting := p.gather()
	p.lines, p.models, p.sessions = nil, nil, nil
	p.cycles = make([]duty, len(p.fleet.Execs))
	for i := range p.classes {
		p.classes[i].sessions, p.classes[i].share = nil, 0
	}
	p.wakes = dispatch.NewAgenda(0)
	if p.fleet.Up > 0 {
		p.assign(p.pack())
	} else {
		for i := range p.classes {
			p.addSession(nobody, piece{class: int32(i), batch: 1, rate: 1})
		}
	}
	p.wakes.Reserve(len(p.sessions))
	p.waiting = 0
	for _, r := range waiting {
		out = p.reassign(r, out)
	}
	for id := range p.cycles {
		out = p.serve(dispatch.ExecutorID(id), out)
	}
	return out
}

// reassign finds a new session for a request that waited.
func (p *nexus) reassign(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	rate := p.classes[r.Class].meter
	out = p.arrive(r, out)
	p.classes[r.Class].meter = rate // it was counted when it came
	return out
}

// gather takes all requests out of their lines, in the order of deadlines.
func (p *nexus) gather() []dispatch.Request {
	var all []dispatch.Request
	for i := range p.lines {
		for q := &p.lines[i]; q.n > 0; q.skip(1) {
			w := q.at(0)
			all = append(all, dispatch.Request{ID: w.id, Class: p.sessions[i].class, Deadline: w.due + p.margin})
		}
	}
	slices.SortStableFunc(all, func(a, b dispatch.Request) int { return cmp.Compare(a.Deadline, b.Deadline) })
	return all
}

// pack finds nodes for all models: whole ones first, then the pieces, the
// busiest first, each to the fullest node that takes it. The rates are scaled
// so that as many nodes come out as there are executors, or a few less. Where
// even the smallest rates need more, executors share nodes.
func (p *nexus) pack() []node {
	const doublings, halvings = 10, 12
	low, high := 0.0, 1.0
	var best []node
	for range doublings {
		n := p.nodes(high)
		if len(n) > p.fleet.Up {
			break
		}
		best, low, high = n, high, 2*high
	}
	for range halvings {
		mid := (low + high) / 2
		if n := p.nodes(mid); len(n) <= p.fleet.Up {
			best, low = n, mid
		} else {
			high = mid
		}
	}
	if best == nil {
		best = p.nodes(1)
	}
	return best
}

// nodes packs the models with their rates scaled.
func (p *nexus) nodes(scale float64) []node {
	var nodes []node
	var rest []piece
	for i := range p.classes {
		c := &p.classes[i]
		rate := c.meter.Rate * scale
		if rate <= 0 {
			continue
		}
		b := half(c.plan, p.delay, c.slo-p.margin)
		l := (c.plan.of(b) + p.delay.Of(b)).Seconds()
		for most := float64(b) / l; rate >= most; rate -= most {
			nodes = append(nodes, node{pieces: []piece{{int32(i), b, most, l}}, cycle: l, busy: l})
		}
		if rate > 0 {
			rest = append(rest, p.residual(int32(i), b, rate))
		}
	}
	slices.SortStableFunc(rest, func(a, b piece) int { return cmp.Compare(p.load(b), p.load(a)) })
	whole := len(nodes)
	for _, r := range rest {
		nodes = p.place(nodes, whole, r)
	}
	return nodes
}

// residual is the piece for a rate that one executor can take: the largest
// batch, up to most, with (b-1)/rate + l(b) <= SLO.
func (p *nexus) residual(class int32, most int, rate float64) piece {
	c := &p.classes[class]
	slo := (c.slo - p.margin).Seconds()
	b := most
	for b > 1 && float64(b-1)/rate+c.plan.of(b).Seconds() > slo {
		b--
	}
	cycle := min(slo-c.plan.of(b).Seconds(), float64(b)/rate)
	return piece{class: class, batch: b, rate: rate, cycle: max(cycle, c.plan.of(b).Seconds())}
}

// load is the share of an executor that a piece needs alone.
func (p *nexus) load(r piece) float64 {
	return p.classes[r.class].plan.of(r.batch).Seconds() / r.cycle
}

// place puts a piece onto the node from first on that it fills most, or onto
// a new one.
func (p *nexus) place(nodes []node, first int, r piece) []node {
	best, fullest := -1, node{}
	for i := first; i < len(nodes); i++ {
		merged, ok := p.merge(nodes[i], r)
		if ok && (best < 0 || merged.busy/merged.cycle > fullest.busy/fullest.cycle) {
			best, fullest = i, merged
		}
	}
	if best >= 0 {
		nodes[best] = fullest
		return nodes
	}
	return append(nodes, node{pieces: []piece{r}, cycle: r.cycle, busy: p.classes[r.class].plan.of(r.batch).Seconds()})
}

// merge lets a piece join a node: the shortest cycle rules, and every batch is
// what arrives in it.
func (p *nexus) merge(n node, r piece) (node, bool) {
	m := node{cycle: min(n.cycle, r.cycle)}
	for _, x := range append(slices.Clone(n.pieces), r) {
		x.batch = max(1, ceil(m.cycle*x.rate))
		l := p.classes[x.class].plan.of(x.batch).Seconds()
		m.busy += l
		if m.busy > m.cycle || l+m.cycle > p.classes[x.class].slo.Seconds() {
			return node{}, false
		}
		m.pieces = append(m.pieces, x)
	}
	return m, true
}

func ceil(x float64) int {
	const slack = 1e-9 // of rounding in cycle·rate
	n := int(x)
	if x-float64(n) > slack {
		n++
	}
	return n
}

// assign gives the nodes to the executors in turn; executors beyond them help
// the first nodes, and nodes beyond the executors share them. A model without
// a rate has a session on every executor, as the planner knows no better.
func (p *nexus) assign(nodes []node) {
	turn := 0
	for id := range p.fleet.Execs {
		if !p.fleet.Execs[id].Up {
			continue
		}
		if len(nodes) > 0 {
			for _, x := range nodes[turn%len(nodes)].pieces {
				p.addSession(dispatch.ExecutorID(id), x)
			}
			for k := turn + p.fleet.Up; k < len(nodes); k += p.fleet.Up {
				for _, x := range nodes[k].pieces {
					p.addSession(dispatch.ExecutorID(id), x)
				}
			}
		}
		turn++
	}
	for i := range p.classes {
		if len(p.classes[i].sessions) > 0 {
			continue
		}
		b := half(p.classes[i].plan, p.delay, p.classes[i].slo-p.margin)
		for id := range p.fleet.Execs {
			if p.fleet.Execs[id].Up {
				p.addSession(dispatch.ExecutorID(id), piece{class: int32(i), batch: b, rate: 1})
			}
		}
	}
}

// addSession opens a session, unless the executor has one of that model.
func (p *nexus) addSession(id dispatch.ExecutorID, x piece) {
	c := &p.classes[x.class]
	c.share += x.rate
	if id != nobody {
		for _, i := range p.cycles[id].sessions {
			if p.sessions[i].class == x.class {
				p.sessions[i].share += x.rate
				return
			}
		}
	}
	i := int32(len(p.sessions))
	m := c.modelState
	m.target = max(1, x.batch)
	p.models = append(p.models, m)
	p.lines = append(p.lines, line{})
	p.sessions = append(p.sessions, session{class: x.class, executor: id, share: x.rate})
	c.sessions = append(c.sessions, i)
	if id != nobody {
		p.cycles[id].sessions = append(p.cycles[id].sessions, i)
	}
}
