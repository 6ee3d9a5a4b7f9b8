package plan

import (
	"math"
	"time"
)

// maxVisits bounds the steps of a search over configuration sets and splits; what is open by then
// is not in the plan, and the plan says so.
const maxVisits = 20_000_000

// deadline ends a search after a time, by the caller's clock, or a number of
// steps.
type deadline struct {
	halted func() bool // nil for no limit of time
	visits int
	cut    bool
}

func (d *deadline) over() bool {
	const often = 1 << 12 // steps from one look at the clock to the next
	d.visits++
	if d.visits >= maxVisits || d.halted != nil && d.visits%often == 1 && d.halted() {
		d.cut = true
	}
	return d.cut
}

// listed lists the configuration sets that each module may use within its
// budget, if that was not done; whole says that only those matter which the
// cheapest whole plan may use.
func (p *planner) listed(budgets []time.Duration, whole bool) {
	if p.options.policy() != PolicyBrute || p.search != nil {
		return
	}
	p.search = &deadline{halted: p.options.halted}
	known := [][]schedule{}
	for _, policy := range []string{PolicyHarpagon, PolicyPiccolo} {
		if sets := p.found(policy); sets != nil {
			known = append(known, sets)
		}
	}
	dearest := p.dearest(known, budgets, whole)
	for i, m := range p.modules {
		if m.rate == 0 {
			m.sets = []schedule{{}}
			continue
		}
		m.twins = []*scheduler{m.as(PolicyHarpagon), m.as(PolicyPiccolo)}
		var own []schedule
		for _, sets := range known {
			own = append(own, sets[i])
		}
		m.sets = setsOf(m, budgets[i], dearest[i], own, p.search)
	}
}

// dearest is the most that a module can weigh in a whole plan that is no dearer
// than one of the known ones: what is left of its weight when all others cost
// the least that any sound plan could (see single, whose proof covers the
// papers' reading). Without limit where the budgets are given.
func (p *planner) dearest(known [][]schedule, budgets []time.Duration, whole bool) []float64 {
	best, sum := math.Inf(1), 0.0
	for _, sets := range known {
		best = math.Min(best, total(sets))
	}
	least := make([]float64, len(p.modules))
	for i, m := range p.modules {
		set, _ := m.single(budgets[i])
		least[i] = set.weight
		sum += least[i]
	}
	for i := range least {
		if least[i] = best - (sum - least[i]); !whole {
			least[i] = math.Inf(1)
		}
		least[i] += 1e3 * costTolerance * math.Abs(best)
	}
	return least
}

// found is what another policy gives every module, nil when nothing.
func (p *planner) found(policy string) []schedule {
	q := *p
	q.options.Policy = policy
	q.options = q.options.baseline()
	q.pace = nil
	q.modules = make([]*scheduler, len(p.modules))
	for i, m := range p.modules {
		q.modules[i] = m.as(policy)
	}
	shares, ok := q.divided()
	if !ok {
		return nil
	}
	sets, err := q.schedule(shares)
	if err != nil {
		return nil
	}
	return sets
}

// as is the module under another policy.
func (s *scheduler) as(policy string) *scheduler {
	twin := *s
	twin.brute, twin.pacing = false, policy == PolicyPiccolo
	return &twin
}

// best is the cheapest set within the budget, from the list or from what the
// other policies find under that very budget.
func (s *scheduler) best(budget time.Duration) (schedule, bool) {
	best, found := s.listed(budget)
	for _, twin := range s.twins {
		if set, ok := twin.solve(budget); ok && (!found || cheaper(set.weight, best.weight)) {
			best, found = set, true
		}
	}
	return best, found
}

// listed is the cheapest set of the list within the budget.
func (s *scheduler) listed(budget time.Duration) (schedule, bool) {
	if s.rate == 0 {
		return schedule{}, true
	}
	for i := len(s.sets) - 1; i >= 0; i-- {
		if s.sets[i].worst <= budget {
			return s.sets[i], true
		}
	}
	return schedule{}, false
}

// brute finds the cheapest combination of sets. The splits are searched like
// those of policy exact, by branch and bound over the modules' stairs: bound is
// a weight that no combination undercuts.
func (p *planner) brute() (split []time.Duration, bound float64, ok bool) {
	p.listed(p.longestBudgets(), true)
	b := &brancher{
		p: p, scale: p.weightScale(), slo: p.pipe.SLO.Seconds(),
		lower: math.Inf(1), best: math.Inf(1), tried: map[string]bool{},
	}
	b.buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		set, ok := p.modules[i].listed(budget)
		return set.weight / b.scale, set.worst, ok
	}
	for _, policy := range []string{PolicyHarpagon, PolicyPiccolo} {
		if sets := p.found(policy); sets != nil {
			b.offer(worsts(sets))
		}
	}
	for _, m := range p.modules {
		var steps []stairStep
		for _, set := range m.sets {
			steps = append(steps, stairStep{budget: set.worst.Seconds(), cost: set.weight / b.scale})
		}
		if len(steps) == 0 && m.rate > 0 {
			return nil, 0, false
		}
		b.costs = append(b.costs, newStair(steps))
	}
	bound = b.run()
	if p.search.cut {
		bound = 0
	}
	return b.found, bound, b.found != nil
}

// solveBrute plans with one search.
func solveBrute(p Problem, o Options) Plan {
	pl, err := newPlanner(&p, o)
	if err == nil {
		err = pl.checkPath()
	}
	if err != nil {
		return o.infeasible(&p, err)
	}
	split, bound, ok := pl.brute()
	if !ok {
		return o.infeasible(&p, pl.noSplit())
	}
	sets, err := pl.schedule(split)
	if err != nil {
		return o.infeasible(&p, err)
	}
	out := pl.plan(sets, pl.dag.stretch(worsts(sets), p.Pipeline.SLO))
	pl.measure(&out, bound)
	return out
}

// measured compares a plan of policy brute, whose budgets came from elsewhere,
// with the best that there is.
func measured(p Problem, o Options, out *Plan) error {
	pl, err := newPlanner(&p, o)
	if err != nil {
		return err
	}
	_, bound, _ := pl.brute()
	pl.measure(out, bound)
	return nil
}

// measure writes the bound into a plan, or that the search was cut off.
func (p *planner) measure(out *Plan, bound float64) {
	p.certify(out, bound)
	out.Restriction = BruteReading
	if p.search.cut {
		out.Restriction = ""
		out.Reason = "the search was cut off; there may be cheaper plans in the papers' reading"
	}
}
