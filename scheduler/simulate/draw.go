package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// Purposes of random numbers: each has a sequence of its own, so that, for
// example, the same requests come whatever noise devices have.
const (
	ForArrivals uint64 = iota + 1
	ForFanout
	ForNoise
	ForDelay
)

// RandomSource is the generator for one purpose of one pipeline.
func RandomSource(seed, purpose uint64, index int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<32|uint64(index)))
}

// DrawPoisson draws from the Poisson distribution of that mean by counting
// exponential gaps, in pieces that do not underflow.
func DrawPoisson(r *rand.Rand, mean float64) int {
	n := 0
	for left := mean; ; n++ {
		if left -= r.ExpFloat64(); left < 0 {
			return n
		}
	}
}

// drawStretch draws a factor with a mean of one and that coefficient of
// variation from a lognormal distribution: what a batch takes beyond, or less
// than, its profile.
func drawStretch(r *rand.Rand, variation float64) float64 {
	s2 := math.Log1p(variation * variation)
	return math.Exp(math.Sqrt(s2)*r.NormFloat64() - s2/2)
}

// latencyQuantile is how many standard deviations the longest latency lies above
// the average: it is the 99th percentile of a normal distribution, as in the
// simulator that came with the HarmonyBatch paper.
const latencyQuantile = 2.33

// DrawLatency draws the time of a batch on a function from a normal
// distribution around the average whose 99th percentile is the longest, cut off
// there and as far below.
func DrawLatency(r *rand.Rand, average, longest time.Duration) time.Duration {
	if longest <= average {
		return average
	}
	for {
		z := r.NormFloat64()
		if x := float64(average) + z*float64(longest-average)/latencyQuantile; math.Abs(z) <= latencyQuantile && x > 0 {
			return min(longest, time.Duration(math.Ceil(x)))
		}
	}
}

// DrawLatencies are n quantiles of what DrawLatency draws, alike in probability, in rising order.
func DrawLatencies(average, longest time.Duration, n int) []time.Duration {
	list := make([]time.Duration, n)
	for i := range list {
		z := 0.0
		if longest > average {
			z = math.Sqrt2 * math.Erfinv(math.Erf(latencyQuantile/math.Sqrt2)*(2*(float64(i)+0.5)/float64(n)-1))
		}
		list[i] = max(1, time.Duration(math.Ceil(float64(average)+z*float64(longest-average)/latencyQuantile)))
	}
	return list
}

// Spread says how the items of a request with fan-out vary.
type Spread string

// The ways to draw a fan-out whose mean is not a whole number.
const (
	SpreadPoisson Spread = "poisson" // DrawPoisson numbers, as of things seen in a picture; the default
	SpreadNear    Spread = "near"    // one of the two whole numbers beside the mean
)

// DrawFanout is how many items a request of that mean fan-out has. A whole
// number is always that many.
func DrawFanout(r *rand.Rand, mean float64, how Spread) int {
	whole := math.Floor(mean)
	switch {
	case whole == mean:
		return int(whole)
	case how == SpreadNear:
		if r.Float64() < mean-whole {
			whole++
		}
		return int(whole)
	}
	return DrawPoisson(r, mean)
}
