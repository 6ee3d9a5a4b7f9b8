package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
)

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
