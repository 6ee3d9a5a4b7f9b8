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
