package pool

import (
	"math"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// runTrial plays the load against the pool at rate queries per second. Of the options it
// uses those that say when to give up and what to record.
func runTrial(p TrialPool, policy dispatch.Policy, load TrialLoad, rate float64, o simulate.Options) (simulate.Result, error) {
	kinds := make([]simulate.Executors, len(p.Types))
	for g, latency := range p.table(load.largest) {
		kinds[g] = simulate.Executors{Hardware: p.Types[g].Name, Count: p.Counts[g], Durations: latency[1:]}
	}
	queries := simulate.Load{
		Pipeline: pipelines.Pipeline{Name: "pool", SLO: p.SLO, Modules: []pipelines.Module{{Name: "query"}}},
		Arrivals: load.arrivals, Sizes: load.sizes,
		Rate: rate * load.drawnRate(), // of one a second that was asked for, so many were drawn
	}
	o.Duration, o.Noise = load.Span(rate)+1, p.Noise
	r, err := simulate.OnExecutors([]simulate.Load{queries}, kinds, policy, o)
	if err != nil {
		return r, err
	}
	r.Pipelines[0].Rate = rate
	return r, nil
}

// TrialSearch says what a sustained rate is and how closely to look for it.
type TrialSearch struct {
	Attainment float64 // share of queries to serve within the SLO
	Tolerance  float64 // relative width at which the search ends
}

// DefaultTrialSearch looks for the house's goodput: 99 % within the SLO, to half a
// percent.
func DefaultTrialSearch() TrialSearch {
	return TrialSearch{Attainment: simulate.DefaultAttainment, Tolerance: simulate.DefaultTolerance}
}

// allowed is how many queries of the load may fail.
func (s TrialSearch) allowed(load TrialLoad) int64 {
	return int64(math.Floor((1 - s.Attainment) * float64(load.Len())))
}

// Sustains says whether the policy reaches the attainment at the rate.
func (s TrialSearch) Sustains(p TrialPool, policy dispatch.Policy, load TrialLoad, rate float64) (bool, error) {
	r, err := runTrial(p, policy, load, rate, simulate.Options{GiveUp: s.allowed(load)})
	return r.Misses <= s.allowed(load), err
}

// Goodput is the highest rate at which the policy reaches the attainment, found
// by bisection below a rate that cannot be sustained; make builds the policy
// anew for each run. It takes attainment to fall as the rate rises; where it
// does not quite, the result is a rate that is sustained all the same.
func (s TrialSearch) Goodput(p TrialPool, make func() dispatch.Policy, load TrialLoad, above float64) (float64, error) {
	return s.GoodputBetween(p, make, load, 0, above)
}

// GoodputBetween is Goodput where a rate is known already that is sustained.
func (s TrialSearch) GoodputBetween(p TrialPool, make func() dispatch.Policy, load TrialLoad, low, high float64) (float64, error) {
	if math.IsInf(high, 1) || math.IsNaN(high) || high <= low {
		return low, nil
	}
	play := func(rate float64, _ uint64) (simulate.Result, error) {
		return runTrial(p, make(), load, rate, simulate.Options{GiveUp: s.allowed(load)})
	}
	found, err := simulate.FindGoodput(play, simulate.Search{Attainment: s.Attainment, Tolerance: s.Tolerance, Low: low, High: high})
	return max(low, found.Rate), err
}
