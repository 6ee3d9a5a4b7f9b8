package trial

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Load is a sequence of queries without a rate.
type Load struct {
	sizes    []int32
	largest  int32
	arrivals simulate.Arrivals // drawn for a mean rate of one query a second
}

// newLoad is queries of the sizes at the instants, given for one query a second.
func newLoad(sizes []int32, stamps []time.Duration) Load {
	l := Load{sizes: sizes, arrivals: simulate.Arrivals{Kind: simulate.ArrivalsReplay, Stamps: stamps}}
	if len(sizes) > 0 {
		l.largest = slices.Max(sizes)
	}
	return l
}

// Arrivals is the shape of the gamma distribution that gaps between queries are
// drawn from: 1 for a Poisson process, more for steadier arrivals, less for
// bursts. Gaps have the coefficient of variation 1/sqrt(shape).
type Arrivals float64

// Kinds of arrivals with a name.
const (
	Even    Arrivals = 0 // equal gaps
	Poisson Arrivals = 1

	// Published are the arrivals of the simulator that came with the Kairos
	// paper: gaps are Poisson numbers of milliseconds with a mean of 10.5, far
	// steadier than the Poisson process that the paper names.
	Published Arrivals = 10.5
)

// ParseArrivals reads "even", "poisson" or "gamma:SHAPE"; empty means even. A
// trace is none: a load has no rate of its own.
func ParseArrivals(s string) (Arrivals, error) {
	kind, shape, _, err := pipelines.SplitArrivals(s)
	switch {
	case err != nil:
		return 0, err
	case kind == pipelines.ArrivalsPoisson:
		return Poisson, nil
	case kind == pipelines.ArrivalsGamma:
		return Arrivals(shape), nil
	case kind == pipelines.ArrivalsTrace:
		return 0, fmt.Errorf("arrivals to a pool are even, poisson or gamma:SHAPE, not a trace")
	}
	return Even, nil
}

// gap draws a gap with a mean of one (Marsaglia and Tsang, ACM TOMS 26, 2000).
func (a Arrivals) gap(rng *rand.Rand) float64 {
	shape := float64(a)
	switch {
	case a == Even:
		return 1
	case a == Poisson:
		return rng.ExpFloat64()
	case shape < 1:
		return Arrivals(shape+1).gap(rng) * (shape + 1) / shape * math.Pow(rng.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rng.NormFloat64()
		v := math.Pow(1+c*x, 3)
		if v > 0 && math.Log(1-rng.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v / shape
		}
	}
}

// Draw draws n queries with sizes of the mix. The sizes do not depend on the
// arrivals.
func Draw(mix pipelines.Mix, n int, arrivals Arrivals, seed uint64) Load {
	sizes, gaps := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	all, stamps := make([]int32, n), make([]time.Duration, n)
	total, at := mix.Total(), 0.0
	for i := range n {
		at += arrivals.gap(gaps)
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
func (l Load) Len() int { return len(l.sizes) }

// Mix is how often each size was drawn.
func (l Load) Mix() pipelines.Mix {
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
func (l Load) Span(rate float64) time.Duration {
	if len(l.sizes) == 0 {
		return 0
	}
	return time.Duration(math.Round(float64(l.arrivals.Stamps[len(l.sizes)-1]) / rate))
}

// drawnRate is the mean rate of the arrivals as they were drawn.
func (l Load) drawnRate() float64 {
	rate, _ := l.arrivals.Recorded()
	return rate
}
