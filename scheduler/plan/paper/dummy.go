package paper

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan"
)

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
