package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// A grouping says which modules are to share which devices, before anyone knows
// budgets. With it known, the rest is nearly convex: where batches of d_1, d_2, ...
// share a device and all wait up to the same deadline, that is their sum D, and the
// device is used by the sum of d_i/min(b_i/f_i, L_i - D). So budgets are split as
// under cost model proportional, with durations that are longer by what a batch
// waits (fit), and a search over groupings finds what no packing under budgets that
// were chosen for something else does.

// Bounds of the search, in steps and not in time, so that the same problem has the
// same plan on any machine.
const (
	mostSteps   = 6_000 // of one enumeration: a part put into a group
	mostFits    = 24    // groupings that it fits budgets to
	mostGrouped = 14    // parts that it enumerates
	mostBoxes   = 40    // of one split of an objective
	fitRounds   = 5
)

// group is the parts that share a device of a kind.
type group struct {
	kind  sharedKind
	parts []int
	wait  time.Duration // one batch of each
}

// regroup looks for a cheaper packing than the best one.
func (s *packer) regroup(best *packing, done func() bool) *packing {
	e := &regrouping{s: s, best: best, done: done}
	e.start()
	return e.best
}

// regrouping is one enumeration.
type regrouping struct {
	s     *packer
	best  *packing
	done  func() bool
	parts []assignment   // what may be put into groups, that which uses most first
	fixed float64        // weight of devices that stay as they are
	needs allBudgets     // of modules that have devices of their own and a share of another
	own   [][]split.Cost // of modules that have devices of their own, by budget
	steps int
	fits  int

	groups []group
	weight float64 // of groups
}

func (e *regrouping) start() {
	s := e.s
	e.needs = make(allBudgets, len(s.problems))
	for i, p := range s.problems {
		e.needs[i] = make([]time.Duration, len(p.Modules))
		e.own = append(e.own, make([]split.Cost, len(p.Modules)))
	}
	for _, at := range e.best.parts {
		m := s.problems[at.pipeline].Modules[at.module]
		if at.residual == 0 && len(at.dedicated) == 1 && at.dedicated[0].Machines <= 1 {
			// It may as well share.
			at.residual, at.dedicated, at.budget = m.Rate, nil, s.problems[at.pipeline].Pipeline.SLO
			s.choose(&at, m.Configs)
		}
		if at.residual == 0 && len(at.dedicated) > 0 {
			steps := s.ownSteps(at.pipeline, at.module)
			e.own[at.pipeline][at.module] = steps
			e.needs[at.pipeline][at.module] = plan.ToDuration(steps.Fastest())
			e.fixed += steps[len(steps)-1].Cost
			continue
		}
		for k := range at.dedicated {
			t := &at.dedicated[k]
			e.fixed += t.Weight * t.Charged()
			e.needs[at.pipeline][at.module] = max(e.needs[at.pipeline][at.module], t.Duration+t.Period)
		}
		if at.residual > 0 {
			e.parts = append(e.parts, at)
		}
	}
	slices.SortStableFunc(e.parts, func(a, b assignment) int { return cmp.Compare(b.size, a.size) })
	if len(e.parts) > 0 && len(e.parts) <= mostGrouped {
		e.visit(0)
	}
}

// visit puts the parts from i on into groups.
func (e *regrouping) visit(i int) {
	if e.steps++; e.steps > mostSteps || e.fits > mostFits || e.done() || e.s.halted() {
		return
	}
	if i == len(e.parts) {
		e.fit()
		return
	}
	for k := range e.groups {
		g := &e.groups[k]
		shortest := shortestOf(e.parts[i].choices[g.kind.index])
		if shortest == 0 {
			continue
		}
		g.parts, g.wait = append(g.parts, i), g.wait+shortest
		if e.possible() {
			e.visit(i + 1)
		}
		g = &e.groups[k]
		g.parts, g.wait = g.parts[:len(g.parts)-1], g.wait-shortest
	}
	for _, h := range e.s.kinds {
		shortest := shortestOf(e.parts[i].choices[h.index])
		if shortest == 0 || h.count > 0 || !plan.Cheaper(e.fixed+e.weight+h.weight, e.best.weight) {
			continue
		}
		e.groups, e.weight = append(e.groups, group{kind: h, parts: []int{i}, wait: shortest}), e.weight+h.weight
		if e.possible() {
			e.visit(i + 1)
		}
		e.groups, e.weight = e.groups[:len(e.groups)-1], e.weight-h.weight
	}
}

// shortestOf is the shortest duration, 0 where there is none.
func shortestOf(list []candidate) time.Duration {
	shortest := time.Duration(0)
	for _, c := range list {
		if shortest == 0 || c.Duration < shortest {
			shortest = c.Duration
		}
	}
	return shortest
}

// possible says whether each group uses no more than its device even if every part
// in it had all that the others leave of the objective at the least.
func (e *regrouping) possible() bool {
	low := make(allBudgets, len(e.needs))
	for i := range low {
		low[i] = slices.Clone(e.needs[i])
	}
	for i := range e.parts {
		at := &e.parts[i]
		low[at.pipeline][at.module] = max(low[at.pipeline][at.module], e.s.problems[at.pipeline].Modules[at.module].Fastest())
	}
	for _, g := range e.groups {
		for _, i := range g.parts {
			at := &e.parts[i]
			low[at.pipeline][at.module] = max(low[at.pipeline][at.module], g.wait)
		}
	}
	around := make(allBudgets, len(low))
	for i, p := range e.s.problems {
		around[i] = p.DAG.Around(low[i])
		for k := range around[i] {
			if around[i][k]+low[i][k] > p.Pipeline.SLO {
				return false
			}
		}
	}
	for _, g := range e.groups {
		use := 0.0
		for _, i := range g.parts {
			at := &e.parts[i]
			list := at.choices[g.kind.index]
			shortest, least := shortestOf(list), math.Inf(1)
			for _, c := range list {
				left := e.s.problems[at.pipeline].Pipeline.SLO - around[at.pipeline][at.module] - g.wait - (c.Duration - shortest)
				if left = min(left, c.filling); left > 0 {
					least = math.Min(least, float64(c.Duration)/float64(left))
				}
			}
			if use += least; use > 1 {
				return false
			}
		}
	}
	return true
}

// fit looks for budgets for the groups, and packs under them.
func (e *regrouping) fit() {
	e.fits++
	takes := make([]time.Duration, len(e.parts)) // by the configurations chosen last
	for _, g := range e.groups {
		for _, i := range g.parts {
			takes[i] = shortestOf(e.parts[i].choices[g.kind.index])
		}
	}
	price := make([]float64, len(e.groups))
	for k := range price {
		price[k] = 1
	}
	for range fitRounds {
		budgets, ok := e.split(takes, price)
		if !ok {
			return
		}
		fits := true
		for k, g := range e.groups {
			wait, use, long := time.Duration(0), 0.0, time.Duration(0)
			for _, i := range g.parts {
				wait += takes[i]
			}
			for _, i := range g.parts {
				at, least, best := &e.parts[i], math.Inf(1), time.Duration(0)
				for _, c := range at.choices[g.kind.index] {
					left := min(c.filling, budgets[at.pipeline][at.module]-wait+takes[i]-c.Duration)
					if left > 0 && float64(c.Duration)/float64(left) < least {
						least, best = float64(c.Duration)/float64(left), c.Duration
					}
				}
				use, long, takes[i] = use+least, long+best, best
			}
			fits = fits && use <= 1 && long <= wait
			price[k] *= math.Max(0.25, math.Min(4, use*use))
		}
		if !fits {
			continue
		}
		if p := e.s.within(budgets); p != nil && plan.Cheaper(p.weight, e.best.weight) {
			e.best = p
		}
		return
	}
}

// split divides the objectives so that the groups use least of their devices.
func (e *regrouping) split(takes []time.Duration, price []float64) (allBudgets, bool) {
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
				list = append(list, split.Curve{Rise: price[k] * c.Duration.Seconds(), Flat: c.filling.Seconds(), Duration: due.Seconds()})
			}
			curves[at.pipeline][at.module] = list.Lower()
		}
	}
	budgets := make(allBudgets, len(e.s.problems))
	for i, p := range e.s.problems {
		_, found := split.Least(p.Prepared, curves[i], mostBoxes)
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
			most := p.longestBudgets()
			for k, w := range p.whole {
				s.steps[i] = append(s.steps[i], split.NewSteps(w.known(most[k])))
			}
		}
	}
	return s.steps[pipeline][module]
}
