package pool

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
)

// kairos chooses by the paper's estimates, and simulates only what it chose.
func (s *solver) kairos(plan *Plan, choice configuration) error {
	plan.Simulated = 1
	s.describe(plan, choice.counts, 0)
	plan.UpperBound = choice.rate
	return nil
}

// kairosChoice ranks all by the estimate and applies the paper's rule.
func (s *solver) kairosChoice(all []configuration) configuration {
	for i := range all {
		all[i].rate = s.estimate(all[i].counts)
	}
	s.rank(all)
	return choose(all, s.base)
}

// homogeneous takes the kind that serves most alone, of those that meet the
// objective at every size, as many instances as the budget pays for.
func (s *solver) homogeneous(plan *Plan) error {
	best, bestRate := make([]int, len(s.kinds)), -1.0
	for g, k := range s.kinds {
		if k.serves < len(s.sizes) || bestRate >= 0 && s.stopped() {
			continue
		}
		counts := make([]int, len(s.kinds))
		if counts[g] = s.affordable(g, s.budget); counts[g] == 0 {
			continue
		}
		if rate := s.goodput(counts, s.load, 0); rate > bestRate {
			best, bestRate = counts, rate
		}
		plan.Simulated++
	}
	s.describe(plan, best, bestRate)
	plan.UpperBound = plan.ProvenBound
	return nil
}

// goodput simulates the configuration; 0 where it does not sustain the rate
// above which it is of interest.
func (s *solver) goodput(counts []int, load TrialLoad, above float64) float64 {
	p := s.trial(counts)
	make := func() dispatch.Policy { return s.dispatcher(counts) }
	if above > 0 {
		if ok, err := s.search.Sustains(p, make(), load, above); !ok || err != nil {
			s.err = cmp.Or(s.err, err)
			return 0
		}
	}
	rate, err := s.search.GoodputBetween(p, make, load, above, s.bound(counts, load)*(1+s.search.Tolerance))
	s.err = cmp.Or(s.err, err)
	return rate
}

// dispatcher is the dispatch policy of a configuration.
func (s *solver) dispatcher(counts []int) dispatch.Policy { return made(s.matching(counts)) }

// made is the policy of a market that was checked.
func made(spec factory.Spec) dispatch.Policy {
	policy, err := factory.New(spec)
	if err != nil {
		panic(err)
	}
	return policy
}

// matching reports how to make the dispatch policy, with the profiles and what seconds
// are worth in the configuration.
func (s *solver) matching(counts []int) factory.Spec {
	var types []matching.InstanceType
	for _, k := range s.kinds {
		types = append(types, matching.InstanceType{Name: k.name, Latency: k.latency})
	}
	o := matchingOptions(s.how, types, s.base, s.slo, s.sizes[len(s.sizes)-1], s.worth(counts))
	return factory.Spec{Matching: &o}
}

// drawnShares are the shares of the sizes among the queries drawn.
func (s *solver) drawnShares() []float64 {
	share := make([]float64, len(s.sizes))
	drawn := s.load.Mix()
	for i, size := range s.sizes {
		for _, d := range drawn {
			if d.Size == size {
				share[i] = d.Weight / drawn.Total()
			}
		}
	}
	return share
}

// bound is the rate that no policy exceeds on the configuration with the
// queries of the load (see capacity). Safe for many goroutines, as a study calls it.
func (s *solver) bound(counts []int, load TrialLoad) float64 {
	c := newCapacity(s.capacity.weight, s.capacity.attain, len(s.kinds))
	g, _ := c.prices(s.kinds, counts, s.slo)
	if math.IsInf(g, 1) {
		return 0
	}
	return s.longRun(g, load)
}

// longRun turns g of capacity into a rate for the queries of the load.
func (s *solver) longRun(g float64, load TrialLoad) float64 {
	left := float64(load.Len())*g - s.slo.Seconds()
	if left <= 0 {
		return math.Inf(1) // so few queries that they fit in one objective
	}
	return load.Span(1).Seconds() / left
}

// worth is what a second of each kind is worth against one of the base, where
// every query is to be served: the prices of the bound, by instance. Kinds
// that the configuration lacks count as the base.
func (s *solver) worth(counts []int) []float64 {
	all := make([]float64, len(s.kinds))
	for g := range all {
		all[g] = 1
	}
	_, q := newCapacity(s.weight, 1, len(s.kinds)).prices(s.kinds, counts, s.slo)
	if q == nil || q[s.base] <= 0 {
		return all
	}
	base := q[s.base] / float64(counts[s.base])
	for g, n := range counts {
		if n > 0 {
			all[g] = math.Max(leastWorth, q[g]/float64(n)/base)
		}
	}
	return all
}

// leastWorth keeps every second worth something.
const leastWorth = 1e-3

// cutsFrom is how many configurations, best estimates first, lend their prices
// to bound all others.
const cutsFrom = 8

// exact takes configurations, ranked by estimate, in the order of their bounds, and leaves
// out those whose bound is no higher than the best goodput found. What kairos would choose
// and the base alone are measured first, so that the result is never worse than these: a
// simulated pool that fails just above the best rate so far may still sustain a higher one.
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

// first is the plan of a pool before any measurement (Pool.Learns): a base instance, one of
// each other kind in the order declared, so that queries measure it, and the rest of the
// budget for more of the base. Its goodput is unknown.
func first(plan Plan, p Problem) Plan {
	plan.Status, plan.Reason = Infeasible, fmt.Sprintf("the base %q is not among the kinds of hardware of the pool", p.Pool.Base)
	left := p.Pool.Budget * (1 + priceTolerance)
	rent := func(h pipelines.Hardware, most int) {
		n := 0
		for n < most && h.Price <= left && (h.Count == 0 || plan.Instances[h.Name] < h.Count) {
			left -= h.Price
			plan.Cost += h.Price
			plan.Instances[h.Name]++
			n++
		}
	}
	at := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == p.Pool.Base })
	if at < 0 {
		return plan
	}
	base := p.Hardware[at]
	plan.Instances = map[string]int{}
	if rent(base, 1); plan.Cost == 0 {
		plan.Reason = fmt.Sprintf("a budget of %g an hour does not pay for one base instance (%s, %g an hour)", p.Pool.Budget, base.Name, base.Price)
		return plan
	}
	for _, name := range p.Pool.Kinds(p.Hardware) {
		i := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == name })
		if i >= 0 && name != base.Name {
			rent(p.Hardware[i], 1)
		}
	}
	rent(base, mostOfBase)
	plan.Status, plan.Reason = Feasible, ""
	return plan
}

// mostOfBase bounds the instances of a first plan where hardware costs next to nothing.
const mostOfBase = 64
