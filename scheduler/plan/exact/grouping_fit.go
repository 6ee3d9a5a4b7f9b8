package exact

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Bounds of one fit.
const (
	mostBoxes   = 4   // of one split of an objective
	fitRounds   = 6   // of prices
	rankedTwice = 10  // times as many groupings as are fitted
	collectStep = 2.0 // from one time of collecting to begin with to the next
)

// fit looks for budgets for the groups, and packs under them. What batches wait for
// each other depends on their configurations, and these on the budgets: so it begins
// with those that use least when requests are collected for some time, the same for
// all, and tries several times.
func (e *regrouping) fit() {
	e.fits--
	if e.near != nil && (e.fitFrom(e.lately()) || !e.near.alone) {
		return // groupings near one are many: each has one try
	}
	shortest, longest := e.extent()
	var tried []string
	for collect := shortest; collect < longest; collect *= collectStep {
		takes := e.takes(plan.ToDuration(collect))
		key := fmt.Sprint(takes)
		if slices.Contains(tried, key) {
			continue
		}
		tried = append(tried, key)
		if e.fitFrom(takes) || e.certain(e.best) || e.s.halted() {
			return
		}
	}
}

// takes are the durations of the configurations that use least when each part
// collects requests for some time.
func (e *regrouping) takes(collect time.Duration) []time.Duration {
	takes := make([]time.Duration, len(e.parts))
	for _, g := range e.groups {
		for _, i := range g.parts {
			least := math.Inf(1)
			for _, c := range e.parts[i].choices[g.kind.index] {
				if use := float64(c.Duration) / float64(e.parts[i].period(&c, collect)); use < least {
					least, takes[i] = use, c.blocks()
				}
			}
		}
	}
	return takes
}

// lately are the durations that the parts have had on devices of the same kind, and
// the shortest of others.
func (e *regrouping) lately() []time.Duration {
	takes, kinds := make([]time.Duration, len(e.parts)), make([]int, len(e.parts))
	for _, g := range e.groups {
		for _, i := range g.parts {
			takes[i], kinds[i] = shortestOf(e.parts[i].choices[g.kind.index]), g.kind.index
		}
	}
	for _, b := range e.from.bins {
		for n, i := range b.parts {
			if at := e.part(&e.from.parts[i]); at >= 0 && takes[at] > 0 && kinds[at] == b.kind.index {
				takes[at] = b.options[n].blocks()
			}
		}
	}
	return takes
}

// part is the number of a module among the parts, -1 where it is none of them.
func (e *regrouping) part(of *assignment) int {
	return slices.IndexFunc(e.parts, func(p assignment) bool { return p.pipeline == of.pipeline && p.module == of.module })
}

// fitFrom is fit from some durations on; true where it found a cheaper packing.
func (e *regrouping) fitFrom(takes []time.Duration) bool {
	price := slices.Repeat([]float64{1}, len(e.groups))
	for range fitRounds {
		if e.s.halted() {
			return false
		}
		e.s.work += perFit * len(e.parts)
		budgets, most, nearly := e.round(takes, price, split.Least, mostBoxes)
		if budgets == nil {
			return false
		}
		if p := e.s.under(budgets); p != nil && plan.Cheaper(p.weight, e.best.weight) {
			e.best = p
			return true
		}
		if most <= 1 && nearly {
			return false
		}
	}
	return false
}

// leastSplit is split.Least or split.LeastRough.
type leastSplit func(p *plan.Prepared, costs []split.Cost, boxes int) (bound float64, budgets []time.Duration)

// round splits the objectives at prices of the groups' devices, where batches take some
// durations, and has every part run what uses least then. It returns the budgets, nil
// where there are none, how much of a device is used at the most, and whether batches
// take no longer than before, and changes durations and prices to what follows.
func (e *regrouping) round(takes []time.Duration, price []float64, least leastSplit, boxes int) (budgets allBudgets, most float64, nearly bool) {
	budgets, ok := e.split(takes, price, least, boxes)
	if !ok {
		return nil, math.Inf(1), false
	}
	nearly = true
	for k, g := range e.groups {
		wait, use, long := time.Duration(0), 0.0, time.Duration(0)
		for _, i := range g.parts {
			wait += takes[i]
		}
		for _, i := range g.parts {
			at, least, best := &e.parts[i], math.Inf(1), time.Duration(0)
			for _, c := range at.choices[g.kind.index] {
				period := at.period(&c, budgets[at.pipeline][at.module]-wait+takes[i]-c.Duration)
				if period > 0 && float64(c.Duration)/float64(period) < least {
					least, best = float64(c.Duration)/float64(period), c.blocks()
				}
			}
			use, long, takes[i] = use+least, long+best, best
		}
		most, nearly = math.Max(most, use), nearly && long <= wait
		price[k] *= math.Max(0.25, math.Min(4, use*use))
	}
	return budgets, most, nearly
}

// rank puts groupings in order of what they use of the device that is used most, after
// some rounds of a fit. Of those that durations alone allow for one in a thousand may fit.
func (e *regrouping) rank(list []grouping, rounds int) {
	for k := range list {
		if e.s.halted() {
			return
		}
		one := &list[k]
		e.groups, e.weight, one.most = one.groups, one.weight, math.Inf(1)
		takes, price := e.collecting(), slices.Repeat([]float64{1}, len(e.groups))
		for range rounds {
			e.s.work += perRank * len(e.parts)
			budgets, most, _ := e.round(takes, price, split.LeastRough, 1)
			if budgets == nil {
				break
			}
			one.most = math.Min(one.most, most)
		}
	}
	inOrder(list)
}

// collecting are the durations to begin with: of those that a part near a packing had in
// it, or of what uses least when requests are hardly collected.
func (e *regrouping) collecting() []time.Duration {
	if e.near != nil {
		return e.lately()
	}
	shortest, _ := e.extent()
	return e.takes(plan.ToDuration(shortest))
}

// extent is the shortest duration and the longest objective, in seconds.
func (e *regrouping) extent() (shortest, longest float64) {
	shortest = math.Inf(1)
	for i := range e.parts {
		at := &e.parts[i]
		shortest = math.Min(shortest, e.s.problems[at.pipeline].Modules[at.module].Fastest().Seconds())
		longest = math.Max(longest, e.s.problems[at.pipeline].Pipeline.SLO.Seconds())
	}
	return shortest, longest
}

// split divides the objectives so that the groups use least of their devices.
func (e *regrouping) split(takes []time.Duration, price []float64, least leastSplit, boxes int) (allBudgets, bool) {
	curves := make([][]split.Cost, len(e.s.problems))
	for i, p := range e.s.problems {
		curves[i] = make([]split.Cost, len(p.Modules))
		for k := range curves[i] {
			curves[i][k] = split.Curves(nil)
			if own := e.own[i][k]; own != nil {
				curves[i][k] = own
			} else if need := e.needs[i][k]; need > 0 {
				curves[i][k] = split.Curves{{Rise: 1e-18, Flat: 1e-9, Duration: need.Seconds()}}
			}
		}
	}
	for k, g := range e.groups {
		wait := time.Duration(0)
		for _, i := range g.parts {
			wait += takes[i]
		}
		for _, i := range g.parts {
			at := &e.parts[i]
			var list split.Curves
			for _, c := range at.choices[g.kind.index] {
				due := max(wait-takes[i]+c.Duration, e.needs[at.pipeline][at.module])
				list = append(list, split.Curve{Rise: price[k] * c.Duration.Seconds(), One: at.restFor(&c).one.Seconds(), Flat: c.filling.Seconds(), Duration: (due + c.spread).Seconds()})
			}
			curves[at.pipeline][at.module] = list.Lower()
		}
	}
	budgets := make(allBudgets, len(e.s.problems))
	for i, p := range e.s.problems {
		_, found := least(p.Prepared, curves[i], boxes)
		if found == nil {
			return nil, false
		}
		budgets[i] = p.DAG.Stretch(found, p.Pipeline.SLO)
	}
	return budgets, true
}

// ownSteps is what a module costs on devices of its own, by its budget.
func (s *packer) ownSteps(pipeline, module int) split.Steps {
	if s.steps == nil {
		s.steps = make([][]split.Steps, len(s.problems))
		for i, p := range s.problems {
			most := p.own.LongestBudgets()
			for k, w := range p.own.Modules {
				s.steps[i] = append(s.steps[i], split.NewSteps(w.Known(most[k])))
			}
		}
	}
	return s.steps[pipeline][module]
}
