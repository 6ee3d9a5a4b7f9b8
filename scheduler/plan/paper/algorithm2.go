package paper

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// state is the DAG of Algorithm 2: one configuration a module, at which it
// would serve its whole rate, with the worst case of doing so.
type state struct {
	pick   []plan.Config
	worst  []time.Duration
	around []time.Duration // longest path through each module, without itself
}

// operation moves some modules (one, or the members of a super-module) to
// other configurations.
type operation struct {
	at    []int
	to    []plan.Config
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
func (p *search) descend(s state, units [][]int, rank chooser) []state {
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
func (p *search) operations(s state, unit []int) []operation {
	if len(unit) > 1 {
		return p.merged(s, unit)
	}
	i := unit[0]
	m := p.Modules[i]
	var ops []operation
	for _, c := range m.Configs {
		worst := p.worstAt(c, p.rateOf(i))
		gain := (s.pick[i].Unit() - c.Unit()) * p.rateOf(i)
		if gain <= plan.CostTolerance*s.pick[i].Unit()*p.rateOf(i) || plan.Saturate(s.around[i], worst) > p.Pipeline.SLO {
			continue
		}
		ops = append(ops, operation{at: unit, to: []plan.Config{c}, extra: worst - s.worst[i], gain: gain, ratio: 1 / c.Unit()})
	}
	return ops
}

func (p *search) apply(s state, op operation) state {
	pick := slices.Clone(s.pick)
	for k, i := range op.at {
		pick[i] = op.to[k]
	}
	return p.stateOf(pick)
}

func (p *search) stateOf(pick []plan.Config) state {
	s := state{pick: pick, worst: make([]time.Duration, len(pick))}
	for i, c := range pick {
		s.worst[i] = p.worstAt(c, p.rateOf(i))
	}
	s.around = p.DAG.Around(s.worst)
	return s
}

// start is the default DAG: every module at the smallest batch on the dearest
// hardware. Where that does not keep the SLO, because other hardware is faster
// or because a low rate fills even a batch of one slowly, every module starts
// at its fastest; and where that is not enough either, dummy requests
// fill its batches sooner (see quickestFilled). Piccolo starts at the fastest anyway.
func (p *search) start() (state, bool) {
	attempts := []func() []plan.Config{p.leastEfficient, p.quickest, p.quickestFilled}
	if p.policy.fastest {
		attempts = attempts[1:]
	}
	for _, attempt := range attempts {
		s := p.stateOf(attempt())
		if p.DAG.Longest(s.worst) <= p.Pipeline.SLO {
			return s, true
		}
	}
	return state{}, false
}

func (p *search) leastEfficient() []plan.Config {
	return p.each(func(m *plan.ModuleProblem, a, b plan.Config) int {
		return cmp.Or(cmp.Compare(a.Batch, b.Batch), cmp.Compare(b.Price, a.Price), cmp.Compare(a.Duration, b.Duration))
	})
}

func (p *search) quickest() []plan.Config {
	return p.each(func(m *plan.ModuleProblem, a, b plan.Config) int {
		return cmp.Compare(p.worstAt(a, m.Rate), p.worstAt(b, m.Rate))
	})
}

// quickestFilled starts every module at its shortest duration and raises its rate by
// dummy requests to what collects a batch within an equal stretch of that
// duration.
func (p *search) quickestFilled() []plan.Config {
	pick := p.each(func(_ *plan.ModuleProblem, a, b plan.Config) int { return cmp.Compare(a.Duration, b.Duration) })
	if p.Options.Lacks("dummy") {
		return pick
	}
	least := make([]time.Duration, len(pick))
	for i, c := range pick {
		least[i] = c.Duration
		if p.Modules[i].Rate == 0 {
			least[i] = 0
		}
	}
	p.rates = make([]float64, len(pick))
	for i, budget := range p.DAG.Stretch(least, p.Pipeline.SLO) {
		p.rates[i] = p.Modules[i].Rate
		if p.rates[i] == 0 {
			continue
		}
		p.rates[i] = p.rule.leastRate(pick[i], max(p.rates[i], plan.CollectRate(pick[i], budget)))
	}
	return pick
}

// rateOf is the rate at which the split judges a module.
func (p *search) rateOf(i int) float64 {
	if p.rates != nil {
		return p.rates[i]
	}
	return p.Modules[i].Rate
}

func (p *search) each(order func(m *plan.ModuleProblem, a, b plan.Config) int) []plan.Config {
	pick := make([]plan.Config, len(p.Modules))
	for i, m := range p.Modules {
		pick[i] = slices.MinFunc(m.Configs, func(a, b plan.Config) int { return order(m, a, b) })
	}
	return pick
}

// descent splits by Algorithm 2. With node merger or cost-direct there are
// several results; the one whose schedule costs least is taken, the plain one
// where costs are equal. A descent whose end only dummy requests can serve also gives
// the split that it would have without them, so that no step ever costs anything.
func (p *search) descent() ([]time.Duration, bool) {
	first, ok := p.start()
	if !ok {
		return nil, false
	}
	rank := byEfficiency
	if p.way.kind == "throughput" {
		rank = byThroughput
	}
	var splits [][]time.Duration
	var passed []state
	for _, merge := range []bool{false, true} {
		units := p.units(merge)
		if merge && (p.Options.Lacks("merge") || len(units) == len(p.Modules)) {
			continue
		}
		path := p.descend(first, units, rank)
		passed = append(passed, path...)
		end := path[len(path)-1].worst
		splits = append(splits, end)
		if !p.Options.Lacks("direct") {
			splits = append(splits, p.direct(path, units)...)
		}
		if !p.serves(p.resized(end), p.solveOwn) {
			if back, ok := p.retreat(path, p.solveOwn); ok {
				splits = append(splits, back)
			}
		}
	}
	if best, ok := p.cheapest(splits); ok {
		return best, true
	}
	if back, ok := p.retreat(passed, p.solve); ok {
		return back, true
	}
	return splits[0], true
}

// cheapest is the split whose schedule costs least; false where none can be scheduled.
func (p *search) cheapest(splits [][]time.Duration) (best []time.Duration, found bool) {
	least := math.Inf(1)
	for _, budgets := range splits {
		if sets, err := p.schedule(p.resized(budgets)); err == nil && plan.Cheaper(weight(sets), least) {
			best, least, found = budgets, weight(sets), true
		}
	}
	return best, found
}
