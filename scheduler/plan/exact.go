package plan

import (
	"math"
	"time"
)

// optimalityGap is the relative gap between a plan's cost and the proven lower
// bound up to which the plan is called optimal.
const optimalityGap = 1e-6

// TwoGroups is the Restriction of a lower bound that holds for plans with at
// most two groups a module, each of one kind of hardware, whose first batches
// are released together (see whole.go).
const TwoGroups = "at most two groups a module"

// single is the least cost of serving the module within the budget, under the
// proportional cost model, over all sets of groups that a dispatcher can keep.
//
// Theorem. Among the sound plans of one module with rate T and budget L, one
// with a single configuration is cheapest, at
//
//	min over (b, d, p) with d < L of  p·d / min(b/T, L - d) .
//
// Proof. Take any sound plan and let T' >= T be its rate with dummy requests.
// Each of its groups releases a batch of b that is due W <= L - d later, and
// the stream brings b requests in no less than b/T'; so T' >= b/(L - d), for
// every configuration in use. The plan costs the sum of f·p·d/b over its
// groups, whose rates f add up to T', hence at least T'·p·d/b for the
// configuration in use whose p·d/b is least, hence at least
// max(T, b/(L - d))·p·d/b. That is what this configuration costs alone. Alone
// it is sound: with one group the processor-demand test is b/T' <= W.
//
// The proof uses of soundness only that T' >= b/(L - d). Plans in the papers'
// reading fulfil that as well, since their worst case d + b/w has w <= T';
// so they are not cheaper under the same budget either.
//
// A machine that runs s batches side by side serves s·b/d, so p/s takes the
// place of p. Budgets are whole nanoseconds, and devices are unlimited.
func (s *scheduler) single(budget time.Duration) (schedule, bool) {
	if s.rate == 0 {
		return schedule{}, true
	}
	best, found := schedule{}, false
	for _, c := range s.configs {
		rate := s.rate
		if collection(c.batch, rate) > budget-c.duration {
			rate = collectRate(c, budget)
		}
		if rate < s.rate {
			continue // the budget leaves no window at all
		}
		machines := rate / c.throughput()
		if weight := c.weight * machines; !found || cheaper(weight, best.weight) {
			found = true
			t := tranche{config: c, machines: machines, rate: rate, collect: rate, worst: partialWorstCase(c, rate)}
			best = schedule{tranches: []tranche{t}, dummies: rate - s.rate, worst: t.worst, weight: weight}
		}
	}
	return best, found
}

// exact finds the split of least cost by branch and bound, with a lower bound
// in weights.
func (p *planner) exact() (split []time.Duration, bound float64, ok bool) {
	switch p.options.costModel() {
	case CostWhole:
		return p.exactWhole()
	case CostShared:
		best, _, bound := newSharer([]*planner{p}).search()
		if best == nil {
			return nil, 0, false
		}
		return best.budgets[0], bound, true
	}
	return p.exactShares()
}

// exactShares is exact under the proportional cost model.
func (p *planner) exactShares() (split []time.Duration, bound float64, ok bool) {
	b := newBrancher(p)
	b.offer(p.dag.stretch(p.quickestDurations(), p.pipe.SLO))
	bound = b.run()
	return b.found, bound, b.found != nil
}

// paper is what policy harpagon would give every module; false where finding
// out takes long.
func (p *planner) paper() ([]time.Duration, bool) {
	const most = 600 // configurations of all modules
	n := 0
	for _, m := range p.modules {
		n += len(m.configs)
	}
	if n > most {
		return nil, false
	}
	q := *p
	q.options.Policy = PolicyHarpagon
	q.modules = make([]*scheduler, len(p.modules))
	for i, m := range p.modules {
		twin := *m
		twin.exact, twin.whole = false, nil
		q.modules[i] = &twin
	}
	shares, ok := q.divided()
	if !ok {
		return nil, false
	}
	sets, err := q.schedule(shares)
	return worsts(sets), err == nil
}

// solveExact plans with one search where no devices are limited; otherwise the
// search for the bound is one of its own, since it knows no limits.
func solveExact(p Problem, o Options) (Plan, error) {
	if p.limited() {
		budgets, err := splitLatency(p, o)
		if err != nil {
			return Plan{}, err
		}
		return scheduleModules(p, o, budgets)
	}
	pl, err := newPlanner(&p, o)
	if err != nil {
		return Plan{}, err
	}
	if err := pl.checkPath(); err != nil {
		return Plan{}, err
	}
	if o.costModel() == CostShared {
		return pl.solveShared()
	}
	split, bound, ok := pl.exact()
	if !ok {
		return Plan{}, pl.noSplit()
	}
	sets, err := pl.schedule(split)
	if err != nil {
		return Plan{}, err
	}
	out := pl.plan(sets, pl.dag.stretch(worsts(sets), pl.pipe.SLO))
	pl.certify(&out, bound)
	return out, nil
}

// bounded certifies a plan whose budgets came from elsewhere.
func bounded(p Problem, o Options, out *Plan) error {
	if o.policy() == PolicyBrute {
		return measured(p, o, out)
	}
	if o.policy() != PolicyExact {
		return nil
	}
	pl, err := newPlanner(&p, o)
	if err != nil {
		return err
	}
	_, bound, _ := pl.exact()
	pl.certify(out, bound)
	return nil
}

// certify writes the lower bound into a plan, and the status that follows.
func (p *planner) certify(out *Plan, bound float64) {
	free := true
	for _, m := range p.modules {
		for _, c := range m.configs {
			free = free && c.price == 0
		}
	}
	if free {
		bound = 0 // the weights that decided are not money
	}
	out.LowerBound = math.Max(0, math.Min(bound, out.Cost))
	if p.restricted {
		out.Restriction = TwoGroups
	}
	if out.Sound && out.Cost-out.LowerBound <= optimalityGap*out.Cost {
		out.Status = Optimal
	}
}
