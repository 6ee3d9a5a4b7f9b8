package paper

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// Policy brute is the yardstick of the papers' evaluations: an exhaustive search
// over all configuration sets of every module and over all splits, in the
// papers' own reading. That reading ("tail") of a configuration set is:
//
//   - any number of full machines of any configurations; a full machine of ratio
//     r collects at the rate of all machines of ratio r or less (Theorem 1);
//   - at most one machine that is partly used, of any configuration; it collects
//     at its own rate, d + b/f, but a batch of one waits for nobody;
//   - or dummy requests that fill the last machine instead. As Theorem 2 has it,
//     they fill no more than one: a set holds no machine that could be left out,
//     the last in the order of ratios.
//
// Such a set has one worst case and one cost, so the budgets that matter are the
// worst cases of sets, and a module is a list of sets of which none beats
// another in both (setsOf). The cheapest combination whose paths keep the SLO is
// the result (combine). Two things are left out of the enumeration: machines
// that are partly used with dummy requests, as Piccolo's rule has them, and more
// dummy requests than fill one machine. What policies harpagon and piccolo find
// is put into the lists, so that brute is never dearer than they are; with it
// come such sets where they are of use.
//
// Only what is provably no better is skipped: a part of the search whose least
// possible cost and worst case some set at hand undercuts both. The papers do not describe
// how they enumerate.

// BruteReading is the Restriction of the lower bound of policy brute.
const BruteReading = "the papers' configuration sets, each worst case by Theorem 1"

// ratioTolerance is the share by which two throughput-cost ratios may differ and
// still count as equal.
const ratioTolerance = 1e-9

// lister enumerates the configuration sets of one module.
type lister struct {
	m       *plan.ModuleProblem
	dummies bool            // dummy requests may fill the last machine
	longest time.Duration   // the longest budget that the module could have
	dearest float64         // the largest weight that a set may have in a plan of use
	most    float64         // the largest throughput of one machine
	rates   []float64       // throughput of one machine, by configuration
	units   []float64       // weight of one request per second
	counts  []int           // full machines, by configuration
	used    []int           // the configurations of which there are some, in order
	front   []plan.Schedule // worst cases rise, weights fall
	watch   *deadline
}

// setsOf lists the configuration sets of a module that no other undercuts, with
// worst cases up to longest and weights up to dearest.
func setsOf(m *plan.ModuleProblem, dummies bool, longest time.Duration, dearest float64, known []plan.Schedule, watch *deadline) []plan.Schedule {
	l := lister{m: m, dummies: dummies, longest: longest, dearest: dearest, counts: make([]int, len(m.Configs)), watch: watch}
	for _, c := range m.Configs {
		l.most = math.Max(l.most, c.Throughput())
		l.rates = append(l.rates, c.Throughput())
		l.units = append(l.units, c.Unit())
	}
	for _, set := range known {
		if !l.beaten(set.Worst, set.Weight) {
			l.keep(set)
		}
	}
	l.visit(0, m.Rate, 0, 0)
	return l.front
}

// visit goes on from full machines of the configurations before k that leave
// rest and cost weight; no set that holds them has a shorter worst case than
// worst.
func (l *lister) visit(k int, rest, weight float64, worst time.Duration) {
	if l.watch.over() {
		return
	}
	l.close(rest, weight, worst)
	for i := k; i < len(l.counts); i++ {
		c := l.m.Configs[i]
		fills := rest / l.rates[i]
		n := int(math.Ceil(fills - plan.RateTolerance))
		if !l.dummies {
			n = int(math.Floor(fills + plan.RateTolerance))
		}
		least := max(worst, plan.PartialWorstCase(c, rest+l.tied(i)+l.spare()))
		l.used = append(l.used, i)
		for ; n >= 1 && !l.watch.over(); n-- {
			left := rest - float64(n)*l.rates[i]
			spent := weight + float64(n)*c.Weight
			if l.beaten(least, spent+l.atLeast(i+1, left)) {
				if left > l.most {
					break // fewer cost no less, see atLeast
				}
				continue
			}
			l.counts[i] = n
			if left <= plan.RateTolerance*l.m.Rate {
				l.offer(-1, 0, spent, least)
			} else {
				l.visit(i+1, left, spent, least)
			}
		}
		l.counts[i], l.used = 0, l.used[:len(l.used)-1]
		if l.beaten(worst, weight+l.atLeast(i+1, rest)) {
			return // the further ones cost no less
		}
	}
}

// tied is the rate of the full machines before configuration i whose ratio is
// the same.
func (l *lister) tied(i int) float64 {
	sum := 0.0
	for j := i - 1; j >= 0 && l.units[j] >= l.units[i]*(1-ratioTolerance); j-- {
		sum += float64(l.counts[j]) * l.rates[j]
	}
	return sum
}

// spare is the most by which dummy requests may raise the rate.
func (l *lister) spare() float64 {
	if !l.dummies {
		return 0
	}
	return l.most
}

// close tries every configuration for the one machine that is partly used.
func (l *lister) close(rest, weight float64, worst time.Duration) {
	for j, c := range l.m.Configs {
		if n := rest / l.rates[j]; n < 1-plan.RateTolerance {
			l.offer(j, rest, weight+c.Weight*l.charged(c, n), max(worst, partly(c, rest)))
		}
	}
}

func (l *lister) charged(c plan.Config, machines float64) float64 {
	t := plan.Allocation{Config: c, Machines: machines}
	return t.Charged()
}

// atLeast is what serving rest costs at the least with full machines of
// configurations from k on and one of any configuration that is partly used. A
// request that cannot be the partly used machine's costs the best ratio of k on:
// beyond the largest throughput of a machine that is the slope.
func (l *lister) atLeast(k int, rest float64) float64 {
	if rest <= plan.RateTolerance*l.m.Rate {
		return 0
	}
	unit := math.Inf(1)
	if k < len(l.m.Configs) {
		unit = l.units[k]
	}
	least := unit * rest
	for j, t := range l.rates[:k] {
		part := math.Min(rest, t)
		more := 0.0
		if part < rest {
			more = unit * (rest - part)
		}
		least = math.Min(least, part*l.units[j]+more)
	}
	return least * (1 - plan.CostTolerance)
}

// beaten reports whether a set at hand is as good in both, the worst case longer
// than any split allows, or the weight more than any cheapest plan can hold.
func (l *lister) beaten(worst time.Duration, weight float64) bool {
	if worst > l.longest || !(weight <= l.dearest) || math.IsInf(weight, 1) {
		return true
	}
	n, _ := slices.BinarySearchFunc(l.front, worst+1, byWorst)
	return n > 0 && !plan.Cheaper(weight, l.front[n-1].Weight)
}

// offer keeps the set of the counts, and of one more machine of configuration
// part that is used for f requests per second (none when part < 0), if no other
// beats it. Its worst case is least or longer.
func (l *lister) offer(part int, f, weight float64, least time.Duration) {
	if l.beaten(least, weight) || l.watch.over() {
		return
	}
	worst := time.Duration(0)
	for _, i := range l.used {
		worst = max(worst, plan.PartialWorstCase(l.m.Configs[i], l.collect(i, part, f)))
	}
	if part >= 0 {
		worst = max(worst, partly(l.m.Configs[part], f))
	}
	if !l.beaten(worst, weight) {
		l.keep(l.set(part, f, worst, weight))
	}
}

func (l *lister) set(part int, f float64, worst time.Duration, weight float64) plan.Schedule {
	set := plan.Schedule{Worst: worst, Weight: weight}
	total := 0.0
	put := func(c plan.Config, machines, rate, collect float64, worst time.Duration) {
		set.Allocations = append(set.Allocations, plan.Allocation{Config: c, Machines: machines, Rate: rate, Collect: collect, Worst: worst})
		total += rate
	}
	for i, n := range l.counts {
		c := l.m.Configs[i]
		if n > 0 {
			collect := l.collect(i, part, f)
			put(c, float64(n), float64(n)*c.Throughput(), collect, plan.PartialWorstCase(c, collect))
		}
		if i == part {
			put(c, f/c.Throughput(), f, f, partly(c, f))
		}
	}
	if dummies := total - l.m.Rate; dummies > plan.RateTolerance*l.m.Rate {
		set.Dummies = dummies
	}
	return set
}

// collect is the rate at which full machines of configuration i collect: that
// of all machines whose ratio is no better, a partly used one included.
func (l *lister) collect(i, part int, f float64) float64 {
	least, sum := l.units[i]*(1-ratioTolerance), 0.0
	for _, j := range l.used {
		if l.units[j] >= least {
			sum += float64(l.counts[j]) * l.rates[j]
		}
	}
	if part >= 0 && l.units[part] >= least {
		sum += f
	}
	return sum
}

// partly is the worst case of a partly used machine that receives f requests per second.
func partly(c plan.Config, f float64) time.Duration {
	if c.Batch == 1 {
		return c.Duration
	}
	return plan.PartialWorstCase(c, f)
}

// keep puts a set into the list and takes those out that it beats.
func (l *lister) keep(set plan.Schedule) {
	at, _ := slices.BinarySearchFunc(l.front, set.Worst, byWorst)
	end := at
	for end < len(l.front) && !plan.Cheaper(l.front[end].Weight, set.Weight) {
		end++
	}
	l.front = slices.Replace(l.front, at, end, set)
}

func byWorst(s plan.Schedule, worst time.Duration) int { return cmp.Compare(s.Worst, worst) }

// brute is policy brute; see brute.go for what it enumerates.
type brute struct{}

// Complete checks the options.
func (brute) Complete(o plan.Options) (plan.Options, error) {
	return o, o.Check()
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
	b := &bruteSearch{sets: make([][]plan.Schedule, len(ready.Modules)), end: &deadline{halted: ready.Options.Stopped}}
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
// minute of one core; what is open by then is not in the plan, and the plan states so.
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
// budget; whole restricts them to those that the cheapest whole plan may use.
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
