package pool

import (
	"cmp"
	"math"

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

// matching says how to make the dispatch policy, with the profiles and what seconds
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
// queries of the load (see capacity). It works in memory of its own: a study is asked
// from many goroutines.
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
