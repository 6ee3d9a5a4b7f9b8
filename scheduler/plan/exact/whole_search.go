package exact

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/split"
)

// wholeProblem is a pipeline whose modules run on whole devices of their own.
type wholeProblem struct {
	*plan.Prepared
	Modules    []*wholeModule // in the order of the DAG
	Restricted bool           // the lower bound is that of plans with two groups a module

	effort int   // see maxEffort
	steps  steps // see maxSteps
}

// newWhole prepares the search.
func newWhole(ready *plan.Prepared) *wholeProblem {
	p := &wholeProblem{Prepared: ready, Modules: make([]*wholeModule, len(ready.Modules)), effort: maxEffort}
	p.steps = steps{left: maxSteps, ended: ready.Options.Stopped}
	for i, m := range ready.Modules {
		p.Modules[i] = newModule(m, p)
	}
	return p
}

// Search splits the SLO for whole devices: branch and bound over costs that
// fall in steps. The steps of the bound hold every mixture at the
// least latency that any dispatch could give it; what a budget really buys is
// the cheapest sound plan. Where the two leave a gap, a second search over the
// steps of what is proven sound looks for the best plan of those, and a third
// one raises the bound by what two groups cannot do. starts are splits to begin
// with; bound is in weights; false means that there is no split.
func (p *wholeProblem) Search(starts ...[]time.Duration) (found []time.Duration, bound float64, ok bool) {
	b := split.NewSearch(p.Prepared)
	b.Buy = func(i int, budget time.Duration) (float64, time.Duration, bool) {
		set, ok := p.Modules[i].cheapest(budget)
		return set.Weight / b.Scale, set.Worst, ok
	}
	most := p.LongestBudgets()
	b.Offer(p.DAG.Stretch(p.Fastest(), p.Pipeline.SLO))
	for _, start := range starts {
		b.Offer(start)
	}
	if b.Found == nil {
		return nil, 0, false
	}
	p.enumerate(b.Best*b.Scale, most)
	open := func() bool { return b.Best*b.Scale-bound > split.PruneGap*b.Best*b.Scale }
	b.Costs = p.costSteps(most, b.Scale, (*wholeModule).bounds)
	if bound = b.Run(); open() {
		b.Costs = p.costSteps(most, b.Scale, (*wholeModule).sounds)
		b.Restart()
		b.Run()
	}
	if open() && p.mixes() {
		b.Costs = p.costSteps(most, b.Scale, (*wholeModule).floors)
		b.Restart()
		if raised := b.Run(); raised > bound {
			p.Restricted, bound = true, raised
		}
	}
	return b.Found, bound, true
}

// mixes reports whether any module has mixtures to choose from.
func (p *wholeProblem) mixes() bool {
	return slices.ContainsFunc(p.Modules, func(w *wholeModule) bool { return len(w.mixtures) > 0 })
}

// LongestBudgets is the most that each module could have: what the SLO leaves
// when all others run at their fastest.
func (p *wholeProblem) LongestBudgets() []time.Duration {
	fast := p.Fastest()
	around := p.DAG.Around(fast)
	for i := range fast {
		fast[i] = p.Modules[i].ModuleProblem.Within(p.Pipeline.SLO - around[i])
	}
	return fast
}

// enumerate lists the mixtures of every module that a plan of at most that
// weight may use.
func (p *wholeProblem) enumerate(weight float64, most []time.Duration) {
	least, sum := make([]float64, len(p.Modules)), 0.0
	for i, w := range p.Modules {
		least[i] = w.relaxed(most[i])
		sum += least[i]
	}
	for i, w := range p.Modules {
		w.enumerate(least[i]+math.Max(0, weight-sum), most[i])
	}
}

// Floors are what modules cost at the least by their budgets, in weights, in plans with
// at most two groups a module; as far as a search has prepared them.
func (p *wholeProblem) Floors() []split.Steps {
	most, list := p.LongestBudgets(), make([]split.Steps, len(p.Modules))
	for i, w := range p.Modules {
		list[i] = split.NewSteps(w.floors(most[i]))
	}
	return list
}

func (p *wholeProblem) costSteps(most []time.Duration, scale float64, of func(*wholeModule, time.Duration) []split.Step) []split.Cost {
	list := make([]split.Cost, len(p.Modules))
	for i, w := range p.Modules {
		steps := slices.DeleteFunc(of(w, most[i]), func(s split.Step) bool {
			return w.Limit > 0 && s.Budget > w.Limit.Seconds()*(1+plan.RateTolerance)
		})
		for k := range steps {
			steps[k].Cost /= scale
		}
		list[i] = split.NewSteps(steps)
	}
	return list
}

// relaxed is a bound on the cost of the module under the longest budget.
func (w *wholeModule) relaxed(budget time.Duration) float64 {
	if w.Rate == 0 {
		return 0
	}
	least := math.Inf(1)
	for _, k := range w.kinds {
		if s := k.serves(w.ModuleProblem, budget.Seconds()); s > 0 {
			n := 1 / s
			if len(w.kinds) == 1 {
				n = math.Ceil(n - plan.RateTolerance)
			}
			least = math.Min(least, n*k.weight)
		}
	}
	return least
}

// singles are the steps of plans of one kind that cost at most limit.
func (w *wholeModule) singles(limit float64, budget time.Duration) []split.Step {
	return w.singlesBy(limit, budget, func(k kind, n int) float64 {
		latency, _ := k.leastLatency(w.ModuleProblem, n)
		return latency
	})
}

// leastSingles are the steps that no plan of one kind is below.
func (w *wholeModule) leastSingles(limit float64, budget time.Duration) []split.Step {
	return w.singlesBy(limit, budget, func(k kind, n int) float64 { return k.leastPossible(w.ModuleProblem, n) })
}

func (w *wholeModule) singlesBy(limit float64, budget time.Duration, latency func(kind, int) float64) []split.Step {
	const most = 4096 // steps of one kind; dearer plans count as the limit
	var steps []split.Step
	for _, k := range w.kinds {
		first := math.Ceil(1/k.serves(w.ModuleProblem, budget.Seconds()) - plan.RateTolerance)
		if !(first < plan.MaxDevices) {
			continue
		}
		for n := int(math.Max(1, first)); float64(n)*k.weight <= limit*(1+plan.CostTolerance) && (k.count == 0 || n <= k.count); n++ {
			if l := latency(k, n); !math.IsInf(l, 1) {
				steps = append(steps, split.Step{Budget: plan.ToDuration(l).Seconds(), Cost: float64(n) * k.weight})
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
func (w *wholeModule) bounds(budget time.Duration) []split.Step {
	if w.Rate == 0 {
		return nil
	}
	steps := w.leastSingles(w.limit, budget)
	for _, m := range w.mixtures {
		steps = append(steps, split.Step{Budget: m.least.Seconds(), Cost: m.weight})
	}
	return w.limited(steps)
}

// floors are the steps of the bound for plans of two groups: bounds, raised for
// the mixtures that matter. Mixtures of more kinds count only where they are
// known to be sound.
func (w *wholeModule) floors(budget time.Duration) []split.Step {
	if w.Rate == 0 {
		return nil
	}
	steps := w.leastSingles(w.limit, budget)
	paid := split.NewSteps(append([]split.Step{}, steps...))
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
		steps = append(steps, split.Step{Budget: floor.Seconds(), Cost: m.weight})
		paid = split.NewSteps(append(paid, split.Step{Budget: floor.Seconds(), Cost: m.weight}))
	}
	return w.limited(steps)
}

// limited closes a list of bounds at its dear end.
func (w *wholeModule) limited(steps []split.Step) []split.Step {
	return append(steps, split.Step{Budget: w.Fastest().Seconds(), Cost: w.limit * (1 + 2*plan.CostTolerance)})
}

// sounds are the steps that are proven sound.
func (w *wholeModule) sounds(budget time.Duration) []split.Step {
	if w.Rate == 0 {
		return nil
	}
	steps := w.singles(w.limit, budget)
	paid := split.NewSteps(append([]split.Step{}, steps...))
	for _, m := range w.mixtures {
		if reached(paid, m.weight) <= m.least.Seconds() {
			continue // a cheaper plan needs no longer budget
		}
		if sound, ok := w.prove(m); ok {
			steps = append(steps, split.Step{Budget: sound.Seconds(), Cost: m.weight})
			paid = split.NewSteps(append(paid, split.Step{Budget: sound.Seconds(), Cost: m.weight}))
		}
	}
	return steps
}

// Known are the steps of what is known to be sound by now.
func (w *wholeModule) Known(budget time.Duration) []split.Step {
	if w.Rate == 0 {
		return nil
	}
	steps := w.singles(w.limit, budget)
	for _, m := range w.mixtures {
		if m.proven && m.sound > 0 {
			steps = append(steps, split.Step{Budget: m.sound.Seconds(), Cost: m.weight})
		}
	}
	return steps
}

// reached is the least budget of the steps that cost at most that.
func reached(s split.Steps, cost float64) float64 {
	for _, x := range s {
		if x.Cost <= cost*(1+plan.CostTolerance) {
			return x.Budget
		}
	}
	return math.Inf(1)
}

// kind is one sort of hardware with the configurations that a module may run
// on it.
type kind struct {
	hardware string
	weight   float64 // of one device, in decisions
	count    int     // that exist; 0 without limit
	configs  []plan.Config
}

// kinds groups configurations by hardware, cheapest first. A configuration
// that another of the same hardware beats in batch, duration and concurrency
// is left out.
func kinds(configs []plan.Config) []kind {
	var all []kind
	for _, c := range configs {
		i := slices.IndexFunc(all, func(k kind) bool { return k.hardware == c.Hardware })
		if i < 0 {
			i = len(all)
			all = append(all, kind{hardware: c.Hardware, weight: c.Weight, count: c.Count})
		}
		all[i].configs = append(all[i].configs, c)
	}
	for i := range all {
		all[i].configs = undominated(all[i].configs)
	}
	slices.SortStableFunc(all, func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.hardware, b.hardware))
	})
	return all
}

func undominated(all []plan.Config) []plan.Config {
	beats := func(a, b plan.Config) bool {
		return a.Batch >= b.Batch && a.Duration <= b.Duration && a.Concurrency >= b.Concurrency
	}
	var kept []plan.Config
	for i, c := range all {
		worse := false
		for j, other := range all {
			worse = worse || i != j && beats(other, c) && (j < i || !beats(c, other))
		}
		if !worse {
			kept = append(kept, c)
		}
	}
	return kept
}

// serves is the largest share that one device of the kind can serve.
func (k kind) serves(m *plan.ModuleProblem, latency float64) float64 {
	most := 0.0
	for i := range k.configs {
		most = math.Max(most, m.Serves(&k.configs[i], latency))
	}
	return most
}

// leastLatency is the least latency that n devices of the kind promise a stream that
// they serve alone, with the configuration that all of them run, and +Inf when they
// are too few.
func (k kind) leastLatency(m *plan.ModuleProblem, n int) (latency float64, by plan.Config) {
	latency = math.Inf(1)
	for _, c := range k.configs {
		if l := m.Latency(&c, n); l < latency {
			latency, by = l, c
		}
	}
	return latency, by
}

// devicesNeeded is the least number of devices with configuration c that answer a
// stream within the budget; false when no number does.
func devicesNeeded(c *plan.Config, m *plan.ModuleProblem, budget time.Duration) (int, bool) {
	if m.Bursts.Items > 0 {
		return m.DevicesForBursts(c, budget, func(n int) float64 { return m.Latency(c, n) })
	}
	window := (budget - c.Duration).Seconds()
	if window <= 0 {
		return 0, false
	}
	n := math.Ceil(c.Interval()/m.Period(c, window) - plan.RateTolerance)
	return int(math.Max(1, n)), n < plan.MaxDevices
}

// UseLeast gives modules that run on whole devices of one kind the configuration that
// uses these least within the module's budget, among those whose batches are short in
// it. Devices cost the same however long they compute, and what they idle bears more
// requests, and slower batches, than were planned for: batches of one request, which
// answer soonest, leave the least.
//
// No budget changes: a longer one for an idle module is a shorter one for a busy module,
// which needs it. Nor are long batches taken: where two or three of them fill the budget,
// an arrival that just misses one is late.
func (p *wholeProblem) UseLeast(sets []plan.Schedule, budgets []time.Duration) {
	for i := range sets {
		a := sets[i].OwnGroup()
		if a == nil || a.Items > 0 {
			continue
		}
		if set, ok := p.Modules[i].leastUtilized(a.Hardware, int(math.Round(a.Machines)), budgets[i], budgets[i]/shortBatch); ok && set.Allocations[0].Batch > a.Batch {
			sets[i] = set
		}
	}
}

// useLeastOfStreams is UseLeast for streams, whose proof counts what a long batch blocks.
func (p *wholeProblem) useLeastOfStreams(sets []plan.Schedule, budgets []time.Duration) {
	for i := range sets {
		if a := sets[i].OwnGroup(); a != nil && a.Items > 0 {
			if set, ok := p.Modules[i].leastUtilized(a.Hardware, int(math.Round(a.Machines)), budgets[i], budgets[i]); ok {
				sets[i] = set
			}
		}
	}
}

// shortBatch is how many batches, one after the other, fit at least into a budget in
// which they are short.
const shortBatch = 8

// leastUtilized is the schedule of n devices of one kind that uses them least, by
// plan.ModuleProblem.Serves, among those of one configuration within the budget whose
// batches take at most that duration; false where there is none. Of configurations that
// use them nearly as little it is that of the largest batch: what a batch costs besides
// computing is not in its duration.
func (w *wholeModule) leastUtilized(hardware string, n int, budget, duration time.Duration) (plan.Schedule, bool) {
	var able []plan.Config
	most := 0.0
	budget = w.ModuleProblem.Within(budget)
	for _, k := range w.kinds {
		for _, c := range k.configs {
			if needed, fits := devicesNeeded(&c, w.ModuleProblem, budget); fits && needed <= n && c.Hardware == hardware && c.Duration <= duration {
				able = append(able, c)
				most = max(most, w.Serves(&c, budget.Seconds()))
			}
		}
	}
	if most == 0 {
		return plan.Schedule{}, false
	}
	var best plan.Config
	for _, c := range able {
		if c.Batch > best.Batch && w.Serves(&c, budget.Seconds()) >= nearly*most {
			best = c
		}
	}
	return w.oneKind(member{best, n}, budget), true
}

// nearly is the share of the most that counts as nearly as much.
const nearly = 0.9
