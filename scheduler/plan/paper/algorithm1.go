package paper

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// algorithm1 serves a module by Algorithm 1 of the Harpagon paper and the dummy
// generator.
type algorithm1 struct {
	*plan.ModuleProblem
	rule     latencyRule
	together bool        // a partly used machine is allocated with the full ones of its configuration
	most     int         // configurations of a module: 2, or 0 for any number
	dummies  []dummyRule // of the generator, the rule that it follows first; none where it is switched off
}

// algorithm1 is the solver that the options of the search leave.
func (s *search) algorithm1(m *plan.ModuleProblem, dummies ...dummyRule) moduleSolver {
	a := &algorithm1{ModuleProblem: m, rule: s.rule, dummies: dummies}
	_, a.together = s.rule.(literal)
	if s.Options.Lacks("dummy") {
		a.dummies = nil
	}
	if s.Options.Lacks("multi") {
		a.most = 2
	}
	if s.Options.Lacks("multi:one") {
		a.dummies = nil
		return oneConfiguration{a}
	}
	return a
}

// allocate is Algorithm 1: the configurations are tried in the order of their
// throughput-cost ratio; as long as one keeps the budget at the rate that is still
// unallocated it takes as many full machines as that rate fills, then the partly used
// rest. rate includes dummy requests.
//
// Full machines of one configuration share the rate that is unallocated when
// they are chosen; the partly used machine is judged at its own rate, even
// when it runs the same configuration.
//
// When no configuration can take the rest, ok is false and rest is its rate;
// the allocations chosen so far are returned.
func (a *algorithm1) allocate(rate float64, budget time.Duration) (set plan.Schedule, rest float64, ok bool) {
	rest = rate
	k := 0
	for rest > plan.RateTolerance*rate {
		t, fits := a.take(&a.Configs[k], rest, budget)
		if !fits {
			if k++; k < len(a.Configs) {
				continue
			}
			if t, fits = a.single(a.Configs, rest, budget); !fits {
				return set, rest, false
			}
		}
		set.Add(t)
		rest -= t.Rate
		if a.most == 2 && rest > plan.RateTolerance*rate {
			return a.residual(set, rest, budget)
		}
	}
	return set, 0, true
}

// take allocates what one step of Algorithm 1 gives to configuration c.
func (a *algorithm1) take(c *plan.Config, rest float64, budget time.Duration) (plan.Allocation, bool) {
	if c.Duration > budget { // the worst case under no rule is shorter
		return plan.Allocation{}, false
	}
	throughput := c.Throughput()
	n := rest / throughput
	full := math.Floor(n + plan.RateTolerance)
	var worst time.Duration
	if a.together || full >= 1 {
		worst = a.rule.full(*c, rest)
	} else {
		worst = a.rule.partial(*c, rest)
	}
	if worst > budget {
		return plan.Allocation{}, false
	}
	t := plan.Allocation{Config: *c, Machines: n, Rate: rest, Collect: rest, Worst: worst}
	if !a.together && full >= 1 {
		t.Machines, t.Rate = full, math.Min(rest, full*throughput)
	}
	return t, true
}

// single serves what no configuration takes by its rule in batches of one on a machine
// that is partly used: d + b/w would have them wait for the next request, which they do
// not need. Where there are dummy requests they see to that.
func (a *algorithm1) single(all []plan.Config, rest float64, budget time.Duration) (plan.Allocation, bool) {
	for _, c := range all {
		if c.Batch != 1 {
			continue
		}
		if n, worst := rest/c.Throughput(), a.rule.fastest(c); n < 1 && worst <= budget {
			return plan.Allocation{Config: c, Machines: n, Rate: rest, Collect: rest, Worst: worst}, true
		}
	}
	return plan.Allocation{}, false
}

// residual serves the rest with a single configuration, as systems with two
// configurations a module do: the first whose full machines and whose partly
// used one both keep the budget.
func (a *algorithm1) residual(set plan.Schedule, rest float64, budget time.Duration) (plan.Schedule, float64, bool) {
	for k := range a.Configs {
		if more, _, ok := a.alike(&a.Configs[k], rest, budget); ok {
			for _, t := range more.Allocations {
				set.Add(t)
			}
			return set, 0, true
		}
	}
	if t, fits := a.single(a.Configs, rest, budget); fits {
		set.Add(t)
		return set, 0, true
	}
	return set, rest, false
}

// alike serves a rate with full machines of c and one that is partly used.
func (a *algorithm1) alike(c *plan.Config, rate float64, budget time.Duration) (set plan.Schedule, rest float64, ok bool) {
	full, fits := a.take(c, rate, budget)
	if !fits {
		return set, rate, false
	}
	set.Add(full)
	if rest = rate - full.Rate; rest <= plan.RateTolerance*rate {
		return set, 0, true
	}
	part, fits := a.take(c, rest, budget)
	if !fits {
		part, fits = a.single([]plan.Config{*c}, rest, budget)
	}
	if !fits {
		return set, rest, false
	}
	set.Add(part)
	return set, 0, true
}

// dummyRule is the rate to which dummy requests raise the leftover workload of a
// configuration under a budget; 0 where no rate is enough.
type dummyRule func(c plan.Config, budget time.Duration) float64

// fillMachine is the rule of the Harpagon paper: what fills one machine.
func fillMachine(c plan.Config, _ time.Duration) float64 { return c.Throughput() }

// solve schedules the module within the budget by Algorithm 1, with dummy requests only
// where it fails without. It is false when no configuration set keeps the budget.
func (a *algorithm1) solve(budget time.Duration) (plan.Schedule, bool) {
	set, rest, ok := a.allocate(a.Rate, budget)
	if !ok && len(a.dummies) > 0 {
		return a.rescue(set, rest, budget)
	}
	return set, ok
}

// fill is the dummy generator: it adds dummy requests as long as that lowers the cost.
func (a *algorithm1) fill(set plan.Schedule, budget time.Duration) plan.Schedule {
	for len(a.dummies) > 0 {
		better, found := a.withDummies(set, budget)
		if !found {
			break
		}
		set = better
	}
	return set
}

// withDummies is the dummy generator of the paper (section III-C): for the
// i-th configuration with leftover workload u_i, the rate that worse
// configurations serve, dummy requests of rate t_i - u_i let one more machine
// run at c_i. The best of these is taken if it lowers the cost; dummy requests
// are charged like real ones. Policy piccolo wants
// another rate.
func (a *algorithm1) withDummies(set plan.Schedule, budget time.Duration) (plan.Schedule, bool) {
	total := a.Rate + set.Dummies
	best, found := set, false
	leftover := total
	next := 0
	for _, c := range a.Configs {
		for next < len(set.Allocations) && set.Allocations[next].Config == c {
			if t := set.Allocations[next]; t.Machines >= 1 {
				leftover -= t.Rate
			}
			next++
		}
		extra := a.dummies[0](c, budget) - leftover
		if leftover <= plan.RateTolerance*total || extra <= plan.RateTolerance*total || !a.pays(total+extra, best.Weight) {
			continue
		}
		if try, _, ok := a.allocate(total+extra, budget); ok && plan.Cheaper(try.Weight, best.Weight) {
			try.Dummies = set.Dummies + extra
			best, found = try, true
		}
	}
	return best, found
}

// rescue finds the cheapest dummy rate at which Algorithm 1 succeeds where it
// failed without: by the generator's own rule, or the least that collects a batch
// within the budget, b/(L - d). The paper leaves this case open; without it a
// module whose rate is low, or whose last machine would receive little, had no
// plan at all.
func (a *algorithm1) rescue(failed plan.Schedule, rest float64, budget time.Duration) (best plan.Schedule, found bool) {
	rests := rests(failed, rest)
	for _, rule := range a.dummies {
		if set, ok := a.raise(rests, budget, rule); ok && (!found || plan.Cheaper(set.Weight, best.Weight)) {
			best, found = set, true
		}
	}
	return best, found
}

// raise adds the dummy requests that bring one of the rests to the rate that a
// configuration wants, whichever gives the cheapest schedule.
func (a *algorithm1) raise(rests []float64, budget time.Duration, want dummyRule) (best plan.Schedule, found bool) {
	for _, rest := range rests {
		for _, c := range a.Configs {
			extra := want(c, budget) - rest
			if extra <= 0 || found && !a.pays(a.Rate+extra, best.Weight) {
				continue
			}
			try, _, ok := a.allocate(a.Rate+extra, budget)
			if ok && (!found || plan.Cheaper(try.Weight, best.Weight)) {
				try.Dummies = extra
				best, found = try, true
			}
		}
	}
	return best, found
}

// pays is whether a schedule of rate requests per second may weigh less than best: none
// weighs less than its requests in the configuration of the best ratio.
func (a *algorithm1) pays(rate, best float64) bool {
	return plan.Cheaper(rate*(1-2*plan.RateTolerance)*a.Configs[0].Unit(), best)
}

// rests are the rates that were unallocated at some point before Algorithm 1
// failed: raising an earlier one may fill a machine of a better configuration.
func rests(failed plan.Schedule, rest float64) []float64 {
	all := []float64{rest}
	for i := len(failed.Allocations) - 1; i >= 0; i-- {
		rest += failed.Allocations[i].Rate
		all = append(all, rest)
	}
	return all
}

// latencyRule is how a policy judges the worst case of a request: GetWCL of the
// Harpagon paper.
type latencyRule interface {
	// full is the worst case of full machines of configuration c whose batches are
	// collected at w requests per second.
	full(c plan.Config, w float64) time.Duration

	// partial is that of one machine that is only partly used and receives rate
	// requests per second.
	partial(c plan.Config, rate float64) time.Duration

	// fastest is the least worst case with any dummy requests.
	fastest(c plan.Config) time.Duration

	// leastRate is the rate, no lower than given, at which the rule holds for machines
	// that are filled with dummy requests.
	leastRate(c plan.Config, rate float64) float64
}

// ruleOf is the rule that the options leave. Of two steps that exclude each
// other the first counts.
func ruleOf(o plan.Options) latencyRule {
	var rule latencyRule = throughputCost{}
	switch {
	case o.Lacks("tc"):
		rule = roundRobin()
	case o.Lacks("dt"):
		rule = byConfiguration{}
	}
	if o.Reading == plan.ReadingLiteral {
		return literal{rule}
	}
	return rule
}

// throughputCost is Theorem 1: with throughput-cost dispatch, w is the rate of
// all machines whose throughput-cost ratio is no better, and the worst case is
// d + b/w.
type throughputCost struct{}

func (throughputCost) full(c plan.Config, w float64) time.Duration {
	return plan.PartialWorstCase(c, w)
}

func (throughputCost) partial(c plan.Config, rate float64) time.Duration {
	return plan.PartialWorstCase(c, rate)
}

func (throughputCost) fastest(c plan.Config) time.Duration { return c.Duration }

func (throughputCost) leastRate(_ plan.Config, rate float64) float64 { return rate }

// multiple has full machines answer within a multiple of the duration, whatever collects
// with them.
type multiple struct {
	throughputCost
	times float64
}

// roundRobin lets every machine collect at its own rate: a full one needs 2d.
func roundRobin() multiple { return multiple{times: 2} }

func (r multiple) full(c plan.Config, _ float64) time.Duration {
	return time.Duration(r.times * float64(c.Duration))
}

func (r multiple) fastest(c plan.Config) time.Duration { return r.full(c, 0) }

func (multiple) leastRate(c plan.Config, rate float64) float64 {
	return math.Max(rate, c.Throughput())
}

// unchecked is roundRobin without regard to the machine that is only partly used.
type unchecked struct{ multiple }

func (r unchecked) partial(c plan.Config, _ float64) time.Duration { return r.full(c, 0) }

// byConfiguration lets the machines of one configuration collect together, apart
// from all others, as Scrooge dispatches: w is the rate of those that w fills.
type byConfiguration struct{ throughputCost }

func (byConfiguration) full(c plan.Config, w float64) time.Duration {
	if n := math.Floor(w/c.Throughput() + plan.RateTolerance); n >= 1 {
		w = n * c.Throughput()
	}
	return plan.PartialWorstCase(c, w)
}

func (byConfiguration) leastRate(c plan.Config, rate float64) float64 { return wholeMachines(rate, c) }

// literal reads a rule to the letter: a partly used machine collects together
// with the full ones of its configuration (see plan.ReadingLiteral).
type literal struct{ latencyRule }

func (l literal) partial(c plan.Config, rate float64) time.Duration { return l.full(c, rate) }

// wholeMachines is the least rate, no lower than given, that fills whole
// machines of c.
func wholeMachines(rate float64, c plan.Config) float64 {
	return math.Max(1, math.Ceil(rate/c.Throughput()-plan.RateTolerance)) * c.Throughput()
}
