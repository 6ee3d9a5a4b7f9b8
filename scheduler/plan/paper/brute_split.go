package paper

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// brute is policy brute; see brute.go for what it enumerates.
type brute struct{}

// Complete checks the options.
func (brute) Complete(o plan.Options) (plan.Options, error) {
	return o, o.Check(plan.Choices{Steps: []string{"hetero", "hetero:dearest", "batch", "concurrency", "dummy"}})
}

// Split is that of least cost.
func (brute) Split(ready *plan.Prepared) (plan.Budgets, error) {
	b := newBruteSearch(ready)
	found, _, err := b.found()
	if err != nil {
		return nil, err
	}
	return b.ByName(found), nil
}

// Schedule gives every module the cheapest configuration set within its budget.
func (brute) Schedule(ready *plan.Prepared, budgets plan.Budgets) (plan.Plan, error) {
	b := newBruteSearch(ready)
	list, err := b.InOrder(budgets)
	if err != nil {
		return plan.Plan{}, err
	}
	b.enumerate(list, false)
	return b.plan(list)
}

// Solve plans with one search.
func (brute) Solve(ready *plan.Prepared) (plan.Plan, error) {
	b := newBruteSearch(ready)
	found, bound, err := b.found()
	if err != nil {
		return plan.Plan{}, err
	}
	out, err := b.plan(found)
	if err == nil {
		b.certify(&out, bound)
	}
	return out, err
}

// Certify compares a plan with the best that there is.
func (brute) Certify(ready *plan.Prepared, out *plan.Plan) {
	b := newBruteSearch(ready)
	_, bound, _ := b.combine()
	b.certify(out, bound)
}

// bruteSearch lists the configuration sets of every module and combines them.
type bruteSearch struct {
	*search
	others []*search         // policies harpagon and piccolo on the same problem
	sets   [][]plan.Schedule // by module, to choose from: worst cases rise, costs fall
	end    *deadline
}

func newBruteSearch(ready *plan.Prepared) *bruteSearch {
	b := &bruteSearch{sets: make([][]plan.Schedule, len(ready.Modules)), end: &deadline{halted: ready.Options.Halted}}
	for _, p := range []policy{harpagon(), piccolo()} {
		other := *ready
		other.Options.Without = append(slices.Clone(ready.Options.Without), p.lacks...)
		b.others = append(b.others, p.search(&other))
	}
	own := policy{module: func(s *search, m *plan.ModuleProblem) moduleSolver {
		return bestSet{b, slices.Index(s.Modules, m)}
	}}
	b.search = own.search(ready)
	return b
}

// bestSet serves one module with the cheapest configuration set.
type bestSet struct {
	search *bruteSearch
	module int
}

// solve takes a set from the list or from what the other policies find under
// that very budget.
func (s bestSet) solve(budget time.Duration) (plan.Schedule, bool) {
	best, found := s.search.listed(s.module, budget)
	for _, other := range s.search.others {
		if set, ok := other.solveFilled(s.module, budget); ok && (!found || plan.Cheaper(set.Weight, best.Weight)) {
			best, found = set, true
		}
	}
	return best, found
}

// maxVisits bounds the steps of a search over configuration sets and splits, about a
// minute of one core; what is open by then is not in the plan, and the plan says so.
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

// enumerate lists the configuration sets that each module may use within its
// budget; whole says that only those matter which the cheapest whole plan may use.
func (b *bruteSearch) enumerate(budgets []time.Duration, whole bool) {
	known := b.known()
	dearest := b.dearest(known, budgets, whole)
	for i, m := range b.Modules {
		if m.Rate == 0 {
			b.sets[i] = []plan.Schedule{{}}
			continue
		}
		var own []plan.Schedule
		for _, sets := range known {
			own = append(own, sets[i])
		}
		b.sets[i] = setsOf(m, !b.Options.Lacks("dummy"), budgets[i], dearest[i], own, b.end)
	}
}

// known is what the other policies give every module.
func (b *bruteSearch) known() (list [][]plan.Schedule) {
	for _, other := range b.others {
		other.rates = nil
		if budgets, ok := other.divide(); ok {
			if sets, err := other.schedule(budgets); err == nil {
				list = append(list, sets)
			}
		}
	}
	return list
}

// dearest is the most that a module can weigh in a whole plan that is no dearer
// than one of the known ones: what is left of its weight when all others cost
// the least that any sound plan could (see split.Cheapest, whose proof covers the
// papers' reading but for batches of one, which it has wait). Without limit where the budgets are given.
func (b *bruteSearch) dearest(known [][]plan.Schedule, budgets []time.Duration, whole bool) []float64 {
	best, sum := math.Inf(1), 0.0
	for _, sets := range known {
		best = math.Min(best, weight(sets))
	}
	least := make([]float64, len(b.Modules))
	for i, m := range b.Modules {
		set, _ := split.Cheapest(m, budgets[i])
		least[i] = set.Weight
		if slices.ContainsFunc(m.Configs, func(c plan.Config) bool { return c.Batch == 1 }) {
			least[i] = math.Min(least[i], m.Rate*m.Configs[0].Unit()) // it waits for nobody
		}
		sum += least[i]
	}
	for i := range least {
		if least[i] = best - (sum - least[i]); !whole {
			least[i] = math.Inf(1)
		}
		least[i] += 1e3 * plan.CostTolerance * math.Abs(best)
	}
	return least
}

// listed is the cheapest set of the list within the budget.
func (b *bruteSearch) listed(i int, budget time.Duration) (plan.Schedule, bool) {
	for _, set := range slices.Backward(b.sets[i]) {
		if set.Worst <= budget {
			return set, true
		}
	}
	return plan.Schedule{}, false
}

// found is the split of least cost with its bound, or an *plan.InfeasibleError.
func (b *bruteSearch) found() ([]time.Duration, float64, error) {
	if err := b.checkPath(); err != nil {
		return nil, 0, err
	}
	found, bound, ok := b.combine()
	if !ok {
		return nil, 0, b.noSplit()
	}
	return found, bound, nil
}

// combine finds the cheapest combination of sets. The splits are searched by
// branch and bound over the steps in which the modules' costs fall: bound is a
// weight that no combination undercuts.
func (b *bruteSearch) combine() (found []time.Duration, bound float64, ok bool) {
	b.enumerate(b.longestBudgets(), true)
	s := split.NewSearch(b.Prepared)
	s.Buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		set, ok := b.listed(i, budget)
		return set.Weight / s.Scale, set.Worst, ok
	}
	for _, sets := range b.known() {
		s.Offer(plan.Worsts(sets))
	}
	for i, m := range b.Modules {
		var steps []split.Step
		for _, set := range b.sets[i] {
			steps = append(steps, split.Step{Budget: set.Worst.Seconds(), Cost: set.Weight / s.Scale})
		}
		if len(steps) == 0 && m.Rate > 0 {
			return nil, 0, false
		}
		s.Costs = append(s.Costs, split.NewSteps(steps))
	}
	bound = s.Run()
	if b.end.cut {
		bound = 0
	}
	return s.Found, bound, s.Found != nil
}

// longestBudgets is the most that each module could have: what the SLO leaves
// when all others run at their fastest.
func (b *bruteSearch) longestBudgets() []time.Duration {
	fast := b.fastestAll()
	around := b.DAG.Around(fast)
	for i := range fast {
		fast[i] = b.Pipeline.SLO - around[i]
	}
	return fast
}

// certify writes the bound into a plan, or that the search was cut off.
func (b *bruteSearch) certify(out *plan.Plan, bound float64) {
	b.Certify(out, bound, BruteReading)
	if b.end.cut {
		out.Restriction = ""
		out.Reason = "the search was cut off; there may be cheaper plans in the papers' reading"
	}
}
