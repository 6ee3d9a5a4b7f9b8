package dispatch

import "math"

// adaptive is Harpagon's own policy for a shared pool: see NewAdaptive.
type adaptive struct {
	pool
	rules  adaptiveRules
	wakes  agenda // every model with requests, by when it must be looked at
	urgent agenda // models that cannot wait for a further request, by the last instant to start
	fuller agenda // the others, by how full their batch is, fullest first
	need   []float64
	needed float64 // executors that all models need together, by their rates
	typic  float64 // smoothed duration of batches
}

// adaptiveRules are the constants of the policy, all in shares of the target
// batch. They were found by a search over simulated pools; the results are
// flat around them.
type adaptiveRules struct {
	start, startIdle, startLoad, startLeast float64
	keep, keepQueue, keepGap, keepLoad      float64
}

func tunedRules() adaptiveRules {
	return adaptiveRules{
		start: 0.804, startIdle: 1.17, startLoad: 0.075, startLeast: 0.5,
		keep: 0.641, keepQueue: 0.045, keepGap: 0.074, keepLoad: 0.025,
	}
}

// Bounds of what adaptive looks at.
const (
	gapMost   = 4.0 // typical gaps between two free executors
	loadMost  = 1.5
	queueMost = 3.0  // target batches
	fillUnit  = 1024 // steps of the order by fullness, per target batch
	typicStep = 0.05 // weight of a new batch in the typical duration
)

// NewAdaptive builds Harpagon's own policy, the default for a shared pool: it
// holds batches back as Symphony does, but by what the whole pool has before
// it.
//
//   - Every model has a target batch, the staggered one for its rate and its
//     share of the executors: l(b)·(1 + 1/n) <= SLO.
//   - A batch that could not take in one more request starts on any free
//     executor, the one with the least time left first.
//   - Before that it starts early if it is full enough: with start of its
//     target, more while the pool has much before it, less while executors idle,
//     because idle time cannot be saved up. The fullest goes first.
//   - Requests are given up only when an executor is granted, when most is
//     known. Those go that would hold the batch below keep of the target though
//     enough others wait; more of them go when the line is long and when the
//     next executor is far off, because then small batches cost most. So a burst
//     costs its oldest requests and not the size of the batches behind it.
//
// Overload thus keeps near the peak: batches stay at the target.
func NewAdaptive(o PoolOptions) Policy { return newAdaptive(o, tunedRules()) }

func newAdaptive(o PoolOptions, r adaptiveRules) *adaptive {
	p := &adaptive{pool: newPool(o), rules: r}
	n := len(p.models)
	p.wakes, p.urgent, p.fuller = newAgenda(n), newAgenda(n), newAgenda(n)
	p.need = make([]float64, n)
	for i := range p.models {
		p.aim(int32(i))
	}
	return p
}

// Name is "adaptive".
func (p *adaptive) Name() string { return "adaptive" }

// Describe draws the policy for logs and golden transcripts.
func (p *adaptive) Describe() string { return p.describe("adaptive") }

// Step takes one event and appends the actions that follow from it.
func (p *adaptive) Step(now Time, ev Event, out []Action) []Action {
	p.begin(now)
	switch ev.Kind {
	case Arrive:
		out = p.arrive(ev.Request, out)
	case Cancel:
		if class := p.cancel(ev.Request); class >= 0 {
			out = p.look(class, out)
		}
	default:
		p.change(ev)
	}
	for p.wakes.next() <= p.now {
		out = p.look(p.wakes.top(), out)
	}
	for p.fleet.opens > 0 {
		class := p.choose()
		if class < 0 {
			break
		}
		out = p.grant(class, out)
	}
	return p.arm(p.wakes.next(), out)
}

func (p *adaptive) arrive(r Request, out []Action) []Action {
	out, ok := p.admit(r, out)
	if r.Class < 0 || int(r.Class) >= len(p.models) {
		return out
	}
	if p.models[r.Class].meter.hit(p.now) {
		p.aim(r.Class)
	}
	if ok {
		out = p.look(r.Class, out)
	}
	return out
}

// aim sets the target batch of a model by its rate and its share of the pool.
func (p *adaptive) aim(class int32) {
	m := &p.models[class]
	budget := m.slo - p.margin
	if !m.meter.known() {
		m.target = half(m.plan, p.delay, budget)
		return
	}
	rate := m.meter.rate
	if up := float64(p.fleet.up); up > 0 && p.needed > up {
		rate *= up / p.needed
	}
	m.target = staggered(m.plan, p.delay, budget, rate)
	need := m.meter.rate * float64(m.plan.of(m.target)) / 1e9 / float64(m.target)
	p.needed += need - p.need[class]
	p.need[class] = need
}

// look notes how full the batch of a model is and when it becomes urgent.
func (p *adaptive) look(class int32, out []Action) []Action {
	out = p.dropLate(class, out)
	q, m := &p.lines[class], &p.models[class]
	if q.n == 0 {
		p.wakes.drop(class)
		p.urgent.drop(class)
		p.fuller.drop(class)
		return out
	}
	s := p.planned(class)
	c := cutWindow(q, &s, p.keep(class))
	if c.size == 0 { // only a faster group can serve what is left
		c = cut{drop: q.n - 1, size: 1}
	}
	due := q.due(c.drop)
	at := due - m.plan.of(c.size+1) - p.delay.Of(c.size+1)
	if at <= p.now || c.size >= len(m.plan) {
		last := due - m.plan.of(c.size) - p.delay.Of(c.size)
		p.urgent.set(class, last)
		p.fuller.drop(class)
		p.wakes.set(class, max(last, p.now)+1)
		return out
	}
	p.urgent.drop(class)
	p.fuller.set(class, -Time(c.size)*fillUnit/Time(m.target))
	p.wakes.set(class, at)
	return out
}

// load is the work that the executors still have before them, as a share of
// what they have when all take turns at the typical batch: 1 in a busy pool.
func (p *adaptive) load() float64 {
	if p.typic == 0 || p.fleet.up < 2 {
		return 1
	}
	return min(loadMost, p.fleet.work(p.now)/(p.typic*float64(p.fleet.up-1)/2))
}

// gap is the time until the next executor is free, beside one that is, in
// typical gaps.
func (p *adaptive) gap() float64 {
	if p.typic == 0 || p.fleet.opens > 1 || p.fleet.ends.len() == 0 {
		return 0
	}
	g := float64(p.fleet.ends.next()-p.now) / p.typic * float64(p.fleet.up)
	return min(gapMost, max(0, g))
}

// keep is the least batch, in requests, that a first request must allow to be
// kept when there are enough others.
func (p *adaptive) keep(class int32) int {
	q, m, r := &p.lines[class], &p.models[class], &p.rules
	target := float64(m.target)
	share := r.keep + r.keepQueue*min(queueMost, float64(q.n)/target) + r.keepGap*p.gap() + r.keepLoad*p.load()
	return max(1, int(math.Round(target*share)))
}

// choose finds the model that takes the next open executor, or -1 where it is
// better to wait.
func (p *adaptive) choose() int32 {
	if p.urgent.len() > 0 {
		return p.urgent.top()
	}
	if p.fuller.len() == 0 {
		return -1
	}
	r := &p.rules
	idle := float64(p.fleet.opens-1) / float64(p.fleet.up)
	share := max(r.startLeast, r.start-r.startIdle*idle+r.startLoad*p.load())
	if float64(-p.fuller.next()) < share*fillUnit {
		return -1
	}
	return p.fuller.top()
}

// grant gives an open executor to the model.
func (p *adaptive) grant(class int32, out []Action) []Action {
	q := &p.lines[class]
	keep := p.keep(class)
	id, best := ExecutorID(-1), cut{}
	for g := range p.fleet.open {
		if p.fleet.open[g].n == 0 {
			continue
		}
		e := ExecutorID(p.fleet.open[g].first())
		s := p.slot(class, e)
		if c := cutWindow(q, &s, keep); id < 0 || c.size > best.size {
			id, best = e, c
		}
	}
	if best.size == 0 {
		p.urgent.drop(class)
		p.fuller.drop(class)
		return out
	}
	if best.drop > 0 {
		out = p.dropFirst(class, best.drop, out)
	}
	before := p.now
	out = p.start(class, id, best.size, out)
	took := float64(p.fleet.execs[id].free - before)
	if p.typic == 0 {
		p.typic = took
	}
	p.typic += (took - p.typic) * typicStep
	return p.look(class, out)
}
