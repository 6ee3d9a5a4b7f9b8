package plan

import (
	"math"
	"slices"
	"time"
)

// exactWhole splits the SLO for whole devices: the branch and bound of
// branch.go over stairs. The stairs of the bound hold every mixture at the
// least latency that any dispatch could give it; what a budget really buys is
// the cheapest sound plan. Where the two leave a gap, a second search over the
// stairs of what is proven sound looks for the best plan of those, and a third
// one raises the bound by what two groups cannot do.
func (p *planner) exactWhole() (split []time.Duration, bound float64, ok bool) {
	b := &brancher{
		p: p, scale: p.weightScale(), slo: p.pipe.SLO.Seconds(),
		lower: math.Inf(1), best: math.Inf(1), tried: map[string]bool{},
	}
	b.buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		set, ok := p.modules[i].whole.cheapest(budget)
		return set.weight / b.scale, set.worst, ok
	}
	most := p.longestBudgets()
	p.firstSplits(b)
	if b.found == nil {
		return nil, 0, false
	}
	p.enumerate(b.best*b.scale, most)
	open := func() bool { return b.best*b.scale-bound > pruneGap*b.best*b.scale }
	b.costs = p.stairs(most, b.scale, (*wholeModule).bounds)
	if bound = b.run(); open() {
		b.costs = p.stairs(most, b.scale, (*wholeModule).sounds)
		b.restart()
		b.run()
	}
	if open() && p.mixes() {
		b.costs = p.stairs(most, b.scale, (*wholeModule).floors)
		b.restart()
		if raised := b.run(); raised > bound {
			p.restricted, bound = true, raised
		}
	}
	return b.found, bound, true
}

// mixes says whether any module has mixtures to choose from.
func (p *planner) mixes() bool {
	return slices.ContainsFunc(p.modules, func(m *scheduler) bool { return len(m.whole.mixtures) > 0 })
}

// longestBudgets is the most that each module could have: what the SLO leaves
// when all others run at their fastest.
func (p *planner) longestBudgets() []time.Duration {
	fast := p.quickestDurations()
	around := p.dag.around(fast)
	for i := range fast {
		fast[i] = p.pipe.SLO - around[i]
	}
	return fast
}

// quickestDurations are the least times in which the modules answer.
func (p *planner) quickestDurations() []time.Duration {
	fast := make([]time.Duration, len(p.modules))
	for i, m := range p.modules {
		if m.rate > 0 {
			fast[i] = m.fastest()
		}
	}
	return fast
}

// firstSplits offers splits to start from: the paper's, and that in proportion
// to the modules' shortest durations.
func (p *planner) firstSplits(b *brancher) {
	b.offer(p.dag.stretch(p.quickestDurations(), p.pipe.SLO))
	if first, ok := p.paper(); ok {
		b.offer(first)
	}
}

// enumerate lists the mixtures of every module that a plan of at most that
// weight may use.
func (p *planner) enumerate(weight float64, most []time.Duration) {
	least, sum := make([]float64, len(p.modules)), 0.0
	for i, m := range p.modules {
		least[i] = m.whole.relaxed(most[i])
		sum += least[i]
	}
	for i, m := range p.modules {
		m.whole.enumerate(least[i]+math.Max(0, weight-sum), most[i])
	}
}

func (p *planner) stairs(most []time.Duration, scale float64, of func(*wholeModule, time.Duration) []stairStep) []trade {
	list := make([]trade, len(p.modules))
	for i, m := range p.modules {
		steps := of(m.whole, most[i])
		for k := range steps {
			steps[k].cost /= scale
		}
		list[i] = newStair(steps)
	}
	return list
}

// relaxed is a bound on the cost of the module under the longest budget.
func (w *wholeModule) relaxed(budget time.Duration) float64 {
	if w.rate == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, k := range w.kinds {
		if s := k.serves(w.rate, budget.Seconds()); s > 0 {
			n := 1 / s
			if len(w.kinds) == 1 {
				n = math.Ceil(n - rateTolerance)
			}
			least = math.Min(least, n*k.weight)
		}
	}
	return least
}

// singles are the steps of plans of one kind that cost at most limit.
func (w *wholeModule) singles(limit float64, budget time.Duration) []stairStep {
	const most = 4096 // steps of one kind; dearer plans count as the limit
	var steps []stairStep
	for _, k := range w.kinds {
		first := math.Ceil(1/k.serves(w.rate, budget.Seconds()) - rateTolerance)
		if !(first < maxDevices) {
			continue
		}
		for n := int(math.Max(1, first)); float64(n)*k.weight <= limit*(1+costTolerance) && (k.count == 0 || n <= k.count); n++ {
			if l, _ := k.alone(w.rate, n); !math.IsInf(l, 1) {
				steps = append(steps, stairStep{toDuration(l).Seconds(), float64(n) * k.weight})
			}
			if n-int(first) > most {
				w.limit = math.Min(w.limit, float64(n)*k.weight)
				break
			}
		}
	}
	return steps
}

// bounds are the steps of the lower bound. Below the budgets that plans up to
// the limit need, the limit is the bound.
func (w *wholeModule) bounds(budget time.Duration) []stairStep {
	if w.rate == 0 {
		return nil
	}
	steps := w.singles(w.limit, budget)
	for _, m := range w.mixtures {
		steps = append(steps, stairStep{m.least.Seconds(), m.weight})
	}
	return w.limited(steps)
}

// floors are the steps of the bound for plans of two groups: bounds, raised for
// the mixtures that matter. Mixtures of more kinds count only where they are
// known to be sound.
func (w *wholeModule) floors(budget time.Duration) []stairStep {
	if w.rate == 0 {
		return nil
	}
	steps := w.singles(w.limit, budget)
	paid := newStair(append([]stairStep{}, steps...))
	for _, m := range w.mixtures {
		if reached(paid, m.weight) <= m.least.Seconds() {
			continue
		}
		_, sound := w.prove(m)
		floor := m.floor
		switch {
		case m.kinds() > 2 && !sound:
			continue // not a plan of two groups
		case m.kinds() > 2:
			floor = m.sound
		case sound:
			w.raise(m)
			floor = m.floor
		}
		steps = append(steps, stairStep{floor.Seconds(), m.weight})
		paid = newStair(append(paid, stairStep{floor.Seconds(), m.weight}))
	}
	return w.limited(steps)
}

// limited closes a stair of bounds at its dear end.
func (w *wholeModule) limited(steps []stairStep) []stairStep {
	return append(steps, stairStep{w.fastest().Seconds(), w.limit * (1 + 2*costTolerance)})
}

// sounds are the steps that are proven sound.
func (w *wholeModule) sounds(budget time.Duration) []stairStep {
	if w.rate == 0 {
		return nil
	}
	steps := w.singles(w.limit, budget)
	paid := newStair(append([]stairStep{}, steps...))
	for _, m := range w.mixtures {
		if reached(paid, m.weight) <= m.least.Seconds() {
			continue // a cheaper plan needs no longer budget
		}
		if sound, ok := w.prove(m); ok {
			steps = append(steps, stairStep{sound.Seconds(), m.weight})
			paid = newStair(append(paid, stairStep{sound.Seconds(), m.weight}))
		}
	}
	return steps
}

// reached is the least budget of the steps that cost at most that.
func reached(s stair, cost float64) float64 {
	for _, x := range s {
		if x.cost <= cost*(1+costTolerance) {
			return x.budget
		}
	}
	return math.Inf(1)
}
