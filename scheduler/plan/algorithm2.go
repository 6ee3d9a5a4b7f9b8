package plan

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// state is the DAG of Algorithm 2: one configuration a module, at which it
// would serve its whole rate, with the worst case of doing so.
type state struct {
	pick   []config
	worst  []time.Duration
	around []time.Duration // longest path through each module, without itself
}

// operation moves some modules (one, or the members of a super-module) to
// other configurations.
type operation struct {
	at    []int
	to    []config
	extra time.Duration // latency budget that the modules need beyond what they have
	gain  float64       // cost saved
	ratio float64       // best throughput-cost ratio among the new configurations
}

// efficiency is LC of the paper, section III-D: cost saved per second of
// latency budget. What needs no budget is infinitely efficient.
func (o operation) efficiency() float64 {
	if o.extra <= 0 {
		return math.Inf(1)
	}
	return o.gain / o.extra.Seconds()
}

// chooser ranks operations; the greatest is applied.
type chooser func(operation) float64

// descend is Algorithm 2 of the Harpagon paper with the ranking open: among
// all operations that lower the cost and keep the end-to-end latency within
// the SLO, apply the one that ranks highest, until none is left. It returns
// every state passed, the first one being s.
//
// Each step lowers the cost and there are finitely many states, so it ends.
func (p *planner) descend(s state, units [][]int, rank chooser) []state {
	path := []state{s}
	for {
		best, found := operation{}, false
		for _, unit := range units {
			for _, op := range p.operations(s, unit) {
				if !found || better(op, best, rank) {
					best, found = op, true
				}
			}
		}
		if !found {
			return path
		}
		s = p.apply(s, best)
		path = append(path, s)
	}
}

// better compares by rank, and by the cost saved where ranks are equal.
func better(a, b operation, rank chooser) bool {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.gain, b.gain)) > 0
}

// operations lists the moves of a unit that fit into the SLO and lower the
// cost. For a single module these are its other configurations; for several,
// see merge.go.
func (p *planner) operations(s state, unit []int) []operation {
	if len(unit) > 1 {
		return p.merged(s, unit)
	}
	i := unit[0]
	m := p.modules[i]
	var ops []operation
	for _, c := range m.configs {
		worst := m.worstAt(c, p.paced(i))
		gain := (s.pick[i].unit() - c.unit()) * p.paced(i)
		if gain <= costTolerance*s.pick[i].unit()*p.paced(i) || saturate(s.around[i], worst) > p.pipe.SLO {
			continue
		}
		ops = append(ops, operation{at: unit, to: []config{c}, extra: worst - s.worst[i], gain: gain, ratio: 1 / c.unit()})
	}
	return ops
}

func (p *planner) apply(s state, op operation) state {
	pick := slices.Clone(s.pick)
	for k, i := range op.at {
		pick[i] = op.to[k]
	}
	return p.stateOf(pick)
}

func (p *planner) stateOf(pick []config) state {
	s := state{pick: pick, worst: make([]time.Duration, len(pick))}
	for i, c := range pick {
		s.worst[i] = p.modules[i].worstAt(c, p.paced(i))
	}
	s.around = p.dag.around(s.worst)
	return s
}

// start is the default DAG: every module at the smallest batch on the dearest
// hardware. Where that does not keep the SLO, because other hardware is faster
// or because a low rate fills even a batch of one slowly, every module starts
// at its fastest; and where that is not enough either, dummy requests set the
// pace (see pacedUp). Piccolo starts at the fastest anyway.
func (p *planner) start() (state, bool) {
	attempts := []func() []config{p.leastEfficient, p.quickest, p.pacedUp}
	if p.options.policy() == PolicyPiccolo {
		attempts = attempts[1:]
	}
	for _, attempt := range attempts {
		s := p.stateOf(attempt())
		if p.dag.longest(s.worst) <= p.pipe.SLO {
			return s, true
		}
	}
	return state{}, false
}

func (p *planner) leastEfficient() []config {
	return p.each(func(m *scheduler, a, b config) int {
		return cmp.Or(cmp.Compare(a.batch, b.batch), cmp.Compare(b.price, a.price), cmp.Compare(a.duration, b.duration))
	})
}

func (p *planner) quickest() []config {
	return p.each(func(m *scheduler, a, b config) int {
		return cmp.Compare(m.worstAt(a, m.rate), m.worstAt(b, m.rate))
	})
}

// pacedUp starts every module at its shortest duration and raises its rate by
// dummy requests to what collects a batch within an equal stretch of that
// duration.
func (p *planner) pacedUp() []config {
	pick := p.each(func(_ *scheduler, a, b config) int { return cmp.Compare(a.duration, b.duration) })
	if p.options.without("dummy") {
		return pick
	}
	least := make([]time.Duration, len(pick))
	for i, c := range pick {
		least[i] = c.duration
		if p.modules[i].rate == 0 {
			least[i] = 0
		}
	}
	p.pace = make([]float64, len(pick))
	for i, budget := range p.dag.stretch(least, p.pipe.SLO) {
		p.pace[i] = p.modules[i].rate
		if p.pace[i] == 0 {
			continue
		}
		p.pace[i] = max(p.pace[i], collectRate(pick[i], budget))
		if p.modules[i].roundRobin {
			p.pace[i] = max(p.pace[i], pick[i].throughput())
		}
		if p.modules[i].apart {
			p.pace[i] = wholeMachines(p.pace[i], pick[i])
		}
	}
	return pick
}

// paced is the rate at which the split judges a module.
func (p *planner) paced(i int) float64 {
	if p.pace != nil {
		return p.pace[i]
	}
	return p.modules[i].rate
}

func (p *planner) each(order func(m *scheduler, a, b config) int) []config {
	pick := make([]config, len(p.modules))
	for i, m := range p.modules {
		pick[i] = slices.MinFunc(m.configs, func(a, b config) int { return order(m, a, b) })
	}
	return pick
}
