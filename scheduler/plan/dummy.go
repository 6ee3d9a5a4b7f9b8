package plan

import "time"

// solve schedules the module within the budget: Algorithm 1, then the dummy
// generator. ok is false when no configuration set keeps the budget.
func (s *scheduler) solve(budget time.Duration) (schedule, bool) {
	if s.rate == 0 {
		return schedule{}, true
	}
	if s.oneConfig {
		return s.one(budget)
	}
	if s.whole != nil {
		return s.whole.within(budget)
	}
	if s.exact {
		return s.single(budget)
	}
	if s.brute {
		return s.best(budget)
	}
	if s.oneTuple {
		return s.tuple(budget)
	}
	set, rest, ok := s.algorithm1(s.rate, budget)
	if s.noDummies {
		return set, ok
	}
	if !ok {
		set, ok = s.rescue(set, rest, budget)
	}
	if !ok {
		return set, false
	}
	for {
		better, found := s.withDummies(set, budget)
		if !found {
			return set, true
		}
		set = better
	}
}

// withDummies is the dummy generator of the paper (section III-C): for the
// i-th configuration with leftover workload u_i, the rate that worse
// configurations serve, dummy requests of rate t_i - u_i let one more machine
// run at c_i. The best of these is taken if it lowers the cost; dummy requests
// are charged like real ones. Policy piccolo wants another rate, see wanted.
func (s *scheduler) withDummies(set schedule, budget time.Duration) (schedule, bool) {
	total := s.rate + set.dummies
	best, found := set, false
	leftover := total
	next := 0
	for _, c := range s.configs {
		for next < len(set.tranches) && set.tranches[next].config == c {
			if t := set.tranches[next]; t.machines >= 1 {
				leftover -= t.rate
			}
			next++
		}
		extra := s.wanted(c, budget) - leftover
		if leftover <= rateTolerance*total || extra <= rateTolerance*total {
			continue
		}
		if try, _, ok := s.algorithm1(total+extra, budget); ok && cheaper(try.weight, best.weight) {
			try.dummies = set.dummies + extra
			best, found = try, true
		}
	}
	return best, found
}

// rescue finds the cheapest dummy rate at which Algorithm 1 succeeds where it
// failed without: what fills one more machine, the generator's own rule, or
// the least that collects a batch within the budget, b/(L - d). The paper
// leaves this case open; without it a module whose rate is low, or whose last
// machine would receive little, had no plan at all.
func (s *scheduler) rescue(failed schedule, rest float64, budget time.Duration) (schedule, bool) {
	rests := s.rests(failed, rest)
	filled, ok := schedule{}, false
	if !s.pacing {
		filled, ok = s.raise(rests, budget, config.throughput)
	}
	paced, fits := s.raise(rests, budget, func(c config) float64 { return collectRate(c, budget) })
	if fits && (!ok || cheaper(paced.weight, filled.weight)) {
		return paced, true
	}
	return filled, ok
}

// raise adds the dummy requests that bring one of the rests to the rate that a
// configuration wants, whichever gives the cheapest schedule.
func (s *scheduler) raise(rests []float64, budget time.Duration, want func(config) float64) (best schedule, found bool) {
	for _, rest := range rests {
		for _, c := range s.configs {
			extra := want(c) - rest
			if extra <= 0 {
				continue
			}
			try, _, ok := s.algorithm1(s.rate+extra, budget)
			if ok && (!found || cheaper(try.weight, best.weight)) {
				try.dummies = extra
				best, found = try, true
			}
		}
	}
	return best, found
}

// rests are the rates that were unallocated at some point before Algorithm 1
// failed: raising an earlier one may fill a machine of a better configuration.
func (s *scheduler) rests(failed schedule, rest float64) []float64 {
	all := []float64{rest}
	for i := len(failed.tranches) - 1; i >= 0; i-- {
		rest += failed.tranches[i].rate
		all = append(all, rest)
	}
	return all
}

// collectRate is the rate at which a batch of c is collected just in time, 0
// when no rate is enough.
func collectRate(c config, budget time.Duration) float64 {
	if budget <= c.duration {
		return 0
	}
	// A nanosecond is taken off so that rounding up the collection time again
	// cannot pass the budget.
	return float64(c.batch) / (budget - c.duration).Seconds() * (1 + rateTolerance)
}
