package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// TrialType is one kind of instance.
type TrialType struct {
	Name    string
	Latency pipelines.Latency
}

// TrialPool is what queries are played against.
type TrialPool struct {
	Types  []TrialType
	Base   int   // place in Types of the kind that meets the SLO at every size
	Counts []int // instances by type
	SLO    time.Duration

	// Noise is the standard deviation of the latency of a query relative to
	// its mean; 0 for none.
	Noise float64
}

// Instances is how many there are of all types.
func (p TrialPool) Instances() int {
	n := 0
	for _, c := range p.Counts {
		n += c
	}
	return n
}

// table is the latency of each size on each type, up to a largest size.
func (p TrialPool) table(largest int32) [][]time.Duration {
	all := make([][]time.Duration, len(p.Types))
	for g, t := range p.Types {
		all[g] = make([]time.Duration, largest+1)
		for size := range all[g] {
			all[g][size] = t.Latency.At(size)
		}
	}
	return all
}

// TrialLoad is a sequence of queries without a rate.
type TrialLoad struct {
	sizes    []int32
	largest  int32
	arrivals arrivals.Process // drawn for a mean rate of one query a second
}

// newLoad is queries of the sizes at the instants, given for one query a second.
func newLoad(sizes []int32, stamps []time.Duration) TrialLoad {
	l := TrialLoad{sizes: sizes, arrivals: arrivals.Process{Kind: arrivals.Replay, Stamps: stamps}}
	if len(sizes) > 0 {
		l.largest = slices.Max(sizes)
	}
	return l
}

// publishedArrivals are the arrivals of the simulator that came with the Kairos paper:
// gaps are Poisson numbers of milliseconds with a mean of 10.5, far steadier
// than the Poisson process that the paper names.
func publishedArrivals() arrivals.Process {
	return arrivals.Process{Kind: pipelines.ArrivalsGamma, Shape: 10.5}
}

// parseArrivals reads "even", "poisson" or "gamma:SHAPE"; empty means even. A
// trace is none: a load has no rate of its own.
func parseArrivals(s string) (arrivals.Process, error) {
	p, file, err := arrivals.Parse(s)
	if err == nil && file != "" {
		err = fmt.Errorf("arrivals to a pool are even, poisson or gamma:SHAPE, not recorded ones")
	}
	return p, err
}

// Draw draws n queries with sizes of the mix. The sizes do not depend on the
// arrivals.
func Draw(mix pipelines.Mix, n int, how arrivals.Process, seed uint64) TrialLoad {
	sizes, gaps := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	all, stamps := make([]int32, n), make([]time.Duration, n)
	total, at := mix.Total(), 0.0
	for i := range n {
		at += how.Gap(gaps)
		stamps[i], all[i] = time.Duration(math.Round(at*float64(time.Second))), pick(mix, sizes.Float64()*total)
	}
	return newLoad(all, stamps)
}

// pick is the size at which the weights add up to x.
func pick(mix pipelines.Mix, x float64) int32 {
	for _, s := range mix {
		if x < s.Weight {
			return int32(s.Size)
		}
		x -= s.Weight
	}
	return int32(mix.Largest())
}

// Sizes are those of the queries, in order.
func (l TrialLoad) Sizes() []int32 { return l.sizes }

// Len is the number of queries.
func (l TrialLoad) Len() int { return len(l.sizes) }

// Mix is how often each size was drawn.
func (l TrialLoad) Mix() pipelines.Mix {
	count := make([]float64, l.largest+1)
	for _, s := range l.sizes {
		count[s]++
	}
	var m pipelines.Mix
	for size, n := range count {
		if n > 0 {
			m = append(m, pipelines.Size{Size: size, Weight: n})
		}
	}
	return m
}

// Span is the time from the start to the last arrival, at rate queries per
// second.
func (l TrialLoad) Span(rate float64) time.Duration {
	if len(l.sizes) == 0 {
		return 0
	}
	return time.Duration(math.Round(float64(l.arrivals.Stamps[len(l.sizes)-1]) / rate))
}

// drawnRate is the mean rate of the arrivals as they were drawn.
func (l TrialLoad) drawnRate() float64 {
	rate, _ := l.arrivals.Recorded()
	return rate
}

// runTrial plays the load against the pool at rate queries per second. Of the options it
// uses the limits and what to record.
func runTrial(p TrialPool, policy dispatch.Policy, load TrialLoad, rate float64, o simulate.Options) (simulate.Result, error) {
	kinds := make([]simulate.Executors, len(p.Types))
	for g, latency := range p.table(load.largest) {
		kinds[g] = simulate.Executors{Hardware: p.Types[g].Name, Count: p.Counts[g], Durations: latency[1:]}
	}
	queries := simulate.Load{
		Pipeline: pipelines.Pipeline{Name: "pool", SLO: p.SLO, Modules: []pipelines.Module{{Name: "query"}}},
		Arrivals: load.arrivals, Sizes: load.sizes,
		Rate: rate * load.drawnRate(), // for each query a second of the nominal rate, so many were drawn
	}
	o.Duration, o.Noise = load.Span(rate)+1, p.Noise
	r, err := simulate.OnExecutors([]simulate.Load{queries}, kinds, policy, o)
	if err != nil {
		return r, err
	}
	r.Pipelines[0].Rate = rate
	return r, nil
}

// TrialSearch states what a sustained rate is and how closely to look for it.
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

// Sustains reports whether the policy reaches the attainment at the rate.
func (s TrialSearch) Sustains(p TrialPool, policy dispatch.Policy, load TrialLoad, rate float64) (bool, error) {
	r, err := runTrial(p, policy, load, rate, simulate.Options{GiveUp: s.allowed(load)})
	return r.Misses <= s.allowed(load), err
}

// Goodput is the highest rate at which the policy reaches the attainment, found
// by bisection below a rate that cannot be sustained; make builds the policy
// again for each run. It takes attainment to fall as the rate rises; where it
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
