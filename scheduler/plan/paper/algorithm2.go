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
// see algorithm2.go.
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
		if gain <= plan.CostTolerance*s.pick[i].Unit()*p.rateOf(i) || plan.SaturatingAdd(s.around[i], worst) > p.Pipeline.SLO {
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

// units groups the modules that one operation may move together. Node merger,
// section III-D of the Harpagon paper: modules that share parents and children
// should have the same budget, so they are moved as one super-module.
func (p *search) units(merge bool) [][]int {
	var units [][]int
next:
	for i := range p.Modules {
		if merge {
			for k, unit := range units {
				if p.twins(unit[0], i) {
					units[k] = append(unit, i)
					continue next
				}
			}
		}
		units = append(units, []int{i})
	}
	return units
}

func (p *search) twins(i, j int) bool {
	return sameSet(p.DAG.Up[i], p.DAG.Up[j]) && sameSet(p.DAG.Down[i], p.DAG.Down[j])
}

func sameSet(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(x int) bool { return !slices.Contains(b, x) })
}

// merged lists the moves of a super-module: for every worst case that a member
// could have, each member goes to its cheapest configuration within it. The
// cost saved is that of all members; the budget needed is what the slowest of
// them gains, because they run side by side.
func (p *search) merged(s state, unit []int) []operation {
	now := time.Duration(0)
	for _, i := range unit {
		now = max(now, s.worst[i])
	}
	var ops []operation
	for _, limit := range p.limits(s, unit, now) {
		op := operation{at: unit, extra: limit - now}
		was := 0.0
		for _, i := range unit {
			c := p.cheapestWithin(s, i, limit)
			op.to = append(op.to, c)
			op.gain += (s.pick[i].Unit() - c.Unit()) * p.rateOf(i)
			op.ratio = math.Max(op.ratio, 1/c.Unit())
			was += s.pick[i].Unit() * p.rateOf(i)
		}
		if op.gain > plan.CostTolerance*was {
			ops = append(ops, op)
		}
	}
	return ops
}

// limits are the common worst cases worth trying: the present one, and those
// of the members' configurations that are longer and fit into the SLO.
func (p *search) limits(s state, unit []int, now time.Duration) []time.Duration {
	limits := []time.Duration{now}
	for _, i := range unit {
		for _, c := range p.Modules[i].Configs {
			worst := p.worstAt(c, p.rateOf(i))
			if worst > now && plan.SaturatingAdd(s.around[i], worst) <= p.Pipeline.SLO {
				limits = append(limits, worst)
			}
		}
	}
	slices.Sort(limits)
	return slices.Compact(limits)
}

func (p *search) cheapestWithin(s state, i int, limit time.Duration) plan.Config {
	for _, c := range p.Modules[i].Configs { // best ratio first
		if p.worstAt(c, p.rateOf(i)) <= limit {
			return c
		}
	}
	return s.pick[i]
}

// byEfficiency ranks operations by latency-cost efficiency, Algorithm 2.
func byEfficiency(o operation) float64 { return o.efficiency() }

// byCost ranks operations by the cost that they save.
func byCost(o operation) float64 { return o.gain }

// byThroughput ranks operations by the throughput-cost ratio that they reach,
// as throughput-based splitting does.
func byThroughput(o operation) float64 { return o.ratio }

// direct is the cost-direct step of section III-D: the final R operations are
// reversed and chosen again by the cost that they save, because with little
// budget left the greatest saving beats the most efficient one. The paper
// leaves R open; every R above 0 is tried. It returns the splits of the final states.
func (p *search) direct(path []state, units [][]int) [][]time.Duration {
	var splits [][]time.Duration
	for r := 1; r < len(path); r++ {
		redone := p.descend(path[len(path)-1-r], units, byCost)
		splits = append(splits, redone[len(redone)-1].worst)
	}
	return splits
}

// retreat finds a split where the one that the search ended with cannot be
// scheduled: Algorithm 2 judges a module by the worst case of its whole rate, so
// the budgets may leave the machine that serves the rest no time to collect.
// With dummy requests that hardly happens; systems without them must give the
// module more. The papers leave this open. Here the search goes back, one move
// after the other, until the objective that is left, shared in proportion, is
// enough; false where it never is. Each module is served by solve.
func (p *search) retreat(passed []state, solve solving) ([]time.Duration, bool) {
	for _, s := range slices.Backward(passed) {
		if budgets := p.DAG.Stretch(s.worst, p.Pipeline.SLO); p.serves(p.resized(budgets), solve) {
			return budgets, true
		}
	}
	return nil, false
}

// solving serves a module within a budget; false where it cannot.
type solving func(module int, budget time.Duration) (plan.Schedule, bool)

// serves is whether solve serves every module within its budget.
func (p *search) serves(budgets []time.Duration, solve solving) bool {
	for i := range p.Modules {
		if _, ok := solve(i, budgets[i]); !ok {
			return false
		}
	}
	return true
}
