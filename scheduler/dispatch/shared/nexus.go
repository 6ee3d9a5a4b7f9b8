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

// NexusOptions configures Nexus with several frontends.
type NexusOptions struct {
	Options

	// Frontends deal requests out without knowing of each other; a request comes to any of
	// them. 0 means 1.
	Frontends int
}

// nexus is Nexus's dispatch: see NewNexus.
type nexus struct {
	base      // one line, and one model, a session
	Classes   []nexusModel
	Sessions  []session
	Cycles    []duty        // by ExecutorID
	PlanAt    dispatch.Time // when the epoch ends
	Stale     bool          // executors came or went since the plan
	Frontends int
	Came      uint64 // requests, by which frontends are drawn
}

// nexusModel is a model as declared, with what was measured of it.
type nexusModel struct {
	modelState
	Sessions []int32
	Share    float64 // of its sessions together
}

// session is a model on one executor; its line has the same number. While no
// executor is up every model has one session on none.
type session struct {
	Class    int32
	Executor dispatch.ExecutorID
	Share    float64   // requests per second that it is meant to take
	Credits  []float64 // of the round robin of each frontend, in requests
}

// duty is an executor's round over its sessions.
type duty struct {
	Sessions []int32
	Turn     int
}

// NewNexus builds Nexus (SOSP 2019) as Symphony's comparison configures it:
// for an epoch of 30 s models are packed onto executors by
// their rates; a request is dealt to one executor of its model when it
// arrives, round robin by weight; and every executor goes round its models and
// runs what has gathered, with Nexus's early drop. No request changes its
// executor, so that bursts meet full and idle executors side by side. Each of several
// frontends goes round by itself and begins anywhere (Symphony, section 3.3).
//
// The packing is that of section 6.1 there: a model that fills executors of
// its own runs the largest batch with 2·l(b) <= SLO; what remains of the rates
// shares executors in duty cycles, each where it fits best. All is stretched,
// or squeezed, to the executors that there are.
func NewNexus(o NexusOptions) dispatch.Policy {
	p := &nexus{base: newBase(o.Options), Frontends: max(1, o.Frontends)}
	for i := range p.Models {
		p.Classes = append(p.Classes, nexusModel{modelState: p.Models[i]})
	}
	p.Lines, p.Models = nil, nil
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
		if p.Stale || p.Now >= p.PlanAt {
			out = p.plan(out)
		}
		out = p.arrive(ev.Request, out)
	case dispatch.Cancel:
		p.forget(ev.Request)
	case dispatch.ExecutorFree:
		p.Fleet.Freed(ev.Executor, p.Now)
		out = p.serve(ev.Executor, out)
	case dispatch.ExecutorUp:
		p.Fleet.Join(ev.Executor, ev.Group, p.Now)
		p.Stale = true
	case dispatch.ExecutorGone:
		p.Fleet.Leave(ev.Executor)
		p.Stale = true
	}
	if p.Stale && p.Waiting > 0 {
		out = p.plan(out)
	}
	for p.Wakes.Next() <= p.Now {
		p.expire(p.Wakes.Top())
	}
	return p.arm(p.Wakes.Next(), p.settle(out))
}

// settle is like that of other clusters, but no request changes its executor.
func (p *nexus) settle(out []dispatch.Action) []dispatch.Action {
	for i := 0; i < len(p.late); {
		class, n := p.late[i].class, 0
		id := p.Sessions[class].Executor
		if p.Fleet.Has(id) && p.Fleet.Execs[id].Pending == 0 {
			n = p.recoverable(i, id)
		}
		if i, out = p.recover(i, n, id, out); n > 0 {
			out[len(out)-1].Class = p.Sessions[class].Class
		}
	}
	p.late = p.late[:0]
	return out
}

// arrive deals the request to the session of its model that has most credit.
func (p *nexus) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	if r.Class < 0 || int(r.Class) >= len(p.Classes) {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	c := &p.Classes[r.Class]
	c.Meter.Hit(p.Now)
	best, f := c.Sessions[0], p.frontend()
	for _, i := range c.Sessions {
		credit := p.credit(i, f)
		if *credit += p.Sessions[i].Share / c.Share; *credit > *p.credit(best, f) {
			best = i
		}
	}
	*p.credit(best, f)--
	if r.Deadline == 0 {
		r.Deadline = r.Arrival + c.SLO
	}
	r.Class = best
	out, ok := p.admit(&r, out)
	if !ok {
		return out
	}
	p.expire(best)
	return p.serve(p.Sessions[best].Executor, out)
}

// frontend draws the one that the next request comes to.
func (p *nexus) frontend() int {
	if p.Frontends <= 1 {
		return 0
	}
	p.Came++
	return int(scatter(p.Came) % uint64(p.Frontends))
}

// credit is what a session has with a frontend. It begins at zero with one frontend, and
// anywhere with several.
func (p *nexus) credit(session int32, frontend int) *float64 {
	s := &p.Sessions[session]
	if s.Credits == nil {
		s.Credits = make([]float64, max(1, p.Frontends))
		for f := range s.Credits {
			if p.Frontends > 1 {
				s.Credits[f] = float64(scatter(uint64(int(session)*p.Frontends+f))>>11)/(1<<53) - 0.5
			}
		}
	}
	return &s.Credits[frontend]
}

// scatter is SplitMix64, a draw by number.
func scatter(n uint64) uint64 {
	n = (n + 1) * 0x9e3779b97f4a7c15
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// forget cancels a request wherever it waits.
func (p *nexus) forget(r dispatch.Request) {
	r.Class = -1 // lines are by session
	p.cancel(&r)
}

// serve runs the next session of an idle executor that has requests.
func (p *nexus) serve(id dispatch.ExecutorID, out []dispatch.Action) []dispatch.Action {
	if !p.Fleet.Has(id) || p.Fleet.Execs[id].Pending > 0 || int(id) >= len(p.Cycles) {
		return out
	}
	d := &p.Cycles[id]
	for range d.Sessions {
		i := d.Sessions[d.Turn%len(d.Sessions)]
		d.Turn++
		q := &p.Lines[i]
		if q.N == 0 {
			continue
		}
		s := p.offer(i, id)
		c := cutEarly(q, &s, p.Models[i].Target)
		p.dropFirst(i, c.drop)
		if c.size > 0 {
			out = p.start(i, id, c.size, out)
			out[len(out)-1].Class = p.Sessions[i].Class
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

// plan packs the models onto the executors again and deals what waits again.
func (p *nexus) plan(out []dispatch.Action) []dispatch.Action {
	p.PlanAt, p.Stale = p.Now+nexusEpoch, false
	waiting := p.gather()
	p.Lines, p.Models, p.Sessions = nil, nil, nil
	p.Cycles = make([]duty, len(p.Fleet.Execs))
	for i := range p.Classes {
		p.Classes[i].Sessions, p.Classes[i].Share = nil, 0
	}
	p.Wakes = dispatch.NewAgenda(0)
	if p.Fleet.Up > 0 {
		p.assign(p.pack())
	} else {
		for i := range p.Classes {
			p.addSession(nobody, piece{class: int32(i), batch: 1, rate: 1})
		}
	}
	p.Wakes.Reserve(len(p.Sessions))
	p.Waiting = 0
	for _, r := range waiting {
		out = p.reassign(r, out)
	}
	for id := range p.Cycles {
		out = p.serve(dispatch.ExecutorID(id), out)
	}
	return out
}

// reassign finds a new session for a request that waited.
func (p *nexus) reassign(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	rate := p.Classes[r.Class].Meter
	out = p.arrive(r, out)
	p.Classes[r.Class].Meter = rate // it was counted when it came
	return out
}

// gather takes all requests out of their lines, in the order of deadlines.
func (p *nexus) gather() []dispatch.Request {
	var all []dispatch.Request
	for i := range p.Lines {
		for q := &p.Lines[i]; q.N > 0; q.skip(1) {
			w := q.at(0)
			all = append(all, dispatch.Request{ID: w.ID, Class: p.Sessions[i].Class, Deadline: w.Due + p.Margin})
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
		if len(n) > p.Fleet.Up {
			break
		}
		best, low, high = n, high, 2*high
	}
	for range halvings {
		mid := (low + high) / 2
		if n := p.nodes(mid); len(n) <= p.Fleet.Up {
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
	for i := range p.Classes {
		c := &p.Classes[i]
		rate := c.Meter.Rate * scale
		if rate <= 0 {
			continue
		}
		b := half(c.Plan, p.Delay, c.SLO-p.Margin)
		l := (c.Plan.of(b) + p.Delay.Of(b)).Seconds()
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
	c := &p.Classes[class]
	slo := (c.SLO - p.Margin).Seconds()
	b := most
	for b > 1 && float64(b-1)/rate+c.Plan.of(b).Seconds() > slo {
		b--
	}
	cycle := min(slo-c.Plan.of(b).Seconds(), float64(b)/rate)
	return piece{class: class, batch: b, rate: rate, cycle: max(cycle, c.Plan.of(b).Seconds())}
}

// load is the share of an executor that a piece needs alone.
func (p *nexus) load(r piece) float64 {
	return p.Classes[r.class].Plan.of(r.batch).Seconds() / r.cycle
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
	return append(nodes, node{pieces: []piece{r}, cycle: r.cycle, busy: p.Classes[r.class].Plan.of(r.batch).Seconds()})
}

// merge lets a piece join a node: the shortest cycle rules, and every batch is
// what arrives in it.
func (p *nexus) merge(n node, r piece) (node, bool) {
	m := node{cycle: min(n.cycle, r.cycle)}
	for _, x := range append(slices.Clone(n.pieces), r) {
		x.batch = max(1, ceil(m.cycle*x.rate))
		l := p.Classes[x.class].Plan.of(x.batch).Seconds()
		m.busy += l
		if m.busy > m.cycle || l+m.cycle > p.Classes[x.class].SLO.Seconds() {
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
// the first nodes, and nodes beyond the executors share them. A model without a rate has a
// session on every executor, since its load is unknown.
func (p *nexus) assign(nodes []node) {
	turn := 0
	for id := range p.Fleet.Execs {
		if !p.Fleet.Execs[id].Up {
			continue
		}
		if len(nodes) > 0 {
			for _, x := range nodes[turn%len(nodes)].pieces {
				p.addSession(dispatch.ExecutorID(id), x)
			}
			for k := turn + p.Fleet.Up; k < len(nodes); k += p.Fleet.Up {
				for _, x := range nodes[k].pieces {
					p.addSession(dispatch.ExecutorID(id), x)
				}
			}
		}
		turn++
	}
	for i := range p.Classes {
		if len(p.Classes[i].Sessions) > 0 {
			continue
		}
		b := half(p.Classes[i].Plan, p.Delay, p.Classes[i].SLO-p.Margin)
		for id := range p.Fleet.Execs {
			if p.Fleet.Execs[id].Up {
				p.addSession(dispatch.ExecutorID(id), piece{class: int32(i), batch: b, rate: 1})
			}
		}
	}
}

// addSession opens a session, unless the executor has one of that model.
func (p *nexus) addSession(id dispatch.ExecutorID, x piece) {
	c := &p.Classes[x.class]
	c.Share += x.rate
	if id != nobody {
		for _, i := range p.Cycles[id].Sessions {
			if p.Sessions[i].Class == x.class {
				p.Sessions[i].Share += x.rate
				return
			}
		}
	}
	i := int32(len(p.Sessions))
	m := c.modelState
	m.Target = max(1, x.batch)
	p.Models = append(p.Models, m)
	p.Lines = append(p.Lines, line{})
	p.Sessions = append(p.Sessions, session{Class: x.class, Executor: id, Share: x.rate})
	c.Sessions = append(c.Sessions, i)
	if id != nobody {
		p.Cycles[id].Sessions = append(p.Cycles[id].Sessions, i)
	}
}
