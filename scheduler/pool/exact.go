package pool

import "math"

// cutsFrom is how many configurations, best estimates first, lend their prices
// to bound all others.
const cutsFrom = 8

// exact takes configurations, ranked by estimate, in the order of their bounds, and leaves out
// those that the bound says cannot beat the best goodput found. What kairos
// would choose and the base alone are measured first, so that the result is
// never worse than these: a simulated pool that fails just above the best rate
// so far may still sustain a higher one.
//
// A configuration is first tried at a rate just above the best so far; only one
// that sustains it is measured. So most cost a single run.
func (s *solver) exact(plan *Plan, all []configuration, first configuration) error {
	best := first.counts
	cuts := s.cuts(all[:min(cutsFrom, len(all))])
	goodput := s.goodput(best, s.load, 0)
	plan.Simulated, plan.Status = 1, Optimal
	if n := s.affordable(s.base, s.budget); n > 0 {
		alone := make([]int, len(s.kinds))
		alone[s.base] = n
		plan.Simulated++
		if better := s.goodput(alone, s.load, 0); better > goodput {
			best, goodput = alone, better
		}
	}
	most := s.simulations(best)
	for i := range all {
		all[i].rate = s.cutBound(cuts, all[i].counts)
	}
	s.rank(all)
	bestBound := s.bound(best, s.load)
	for _, c := range all {
		worthwhile := goodput * (1 + s.search.Tolerance)
		if c.rate <= worthwhile {
			bestBound = math.Max(bestBound, c.rate) // of this one and all that follow
			break
		}
		if plan.Simulated >= most || s.stopped() {
			plan.Status, bestBound = Feasible, math.Max(bestBound, c.rate)
			break
		}
		bound := s.bound(c.counts, s.load)
		if bestBound = math.Max(bestBound, bound); bound <= worthwhile {
			continue
		}
		plan.Simulated++
		if better := s.goodput(c.counts, s.load, worthwhile); better > goodput {
			best, goodput = c.counts, better
		}
	}
	status := plan.Status
	s.describe(plan, best, goodput)
	plan.Status, plan.BestBound, plan.UpperBound = status, bestBound, plan.ProvenBound
	return nil
}

// cut bounds the rate of every configuration at once: with any price per second
// of each type, and G the least price of the queries that must be served in
// time, per query, the claim of capacity with q_j = n_j·price_j / (sum of
// n_i·price_i) reads g = G/(sum of n_i·price_i). G is taken over all kinds; a
// configuration that lacks some has none below it.
type cut struct {
	price []float64 // by kind, of a second
	least float64   // G, with all kinds at hand
}

// cuts takes prices from the best prices of some configurations. Kinds that a
// configuration lacks are priced as dear as they may be without changing what
// its queries run on.
func (s *solver) cuts(from []configuration) []cut {
	var all []cut
	ones := make([]int, len(s.kinds))
	for g := range ones {
		ones[g] = 1
	}
	for _, c := range from {
		g, q := s.capacity.prices(s.kinds, c.counts, s.slo)
		if q == nil || g == 0 {
			continue
		}
		one := cut{price: make([]float64, len(s.kinds))}
		for j, n := range c.counts {
			if n > 0 {
				one.price[j] = q[j] / float64(n)
			}
		}
		s.raisePrices(one.price, c.counts)
		one.least = s.capacity.value(s.kinds, ones, s.slo, one.price)
		all = append(all, one)
	}
	return all
}

// raisePrices prices the kinds that are not in the configuration so that each
// query is no cheaper there than where it runs.
func (s *solver) raisePrices(price []float64, counts []int) {
	for j, n := range counts {
		if n > 0 {
			continue
		}
		for k := range s.sizes {
			least := math.Inf(1)
			for i, m := range counts {
				if m > 0 && s.kinds[i].seconds[k] <= s.slo.Seconds() {
					least = math.Min(least, price[i]*s.kinds[i].seconds[k])
				}
			}
			if own := s.kinds[j].seconds[k]; own <= s.slo.Seconds() && !math.IsInf(least, 1) {
				price[j] = math.Max(price[j], least/own)
			}
		}
	}
}

// cutBound is the least of what the cuts allow the configuration.
func (s *solver) cutBound(cuts []cut, counts []int) float64 {
	best := math.Inf(1)
	for _, c := range cuts {
		if c.least <= 0 {
			continue
		}
		sum := 0.0
		for j, n := range counts {
			sum += float64(n) * c.price[j]
		}
		best = math.Min(best, s.longRun(c.least/sum, s.load))
	}
	return best
}
