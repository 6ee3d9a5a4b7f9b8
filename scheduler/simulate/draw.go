package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
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

// Spread states how the items of a request with fan-out vary.
type Spread string

// The ways to draw a fan-out that varies.
const (
	SpreadPoisson Spread = "poisson" // DrawPoisson numbers, as of things seen in a picture; the default
	SpreadNear    Spread = "near"    // one of the two whole numbers beside the mean
)

// DrawFanout is how many items a module gets of a request above it. A whole number is always
// that many. Where most is declared, too, each of so many is there or not, with the same
// probability: that keeps the mean, and there are never more. Measured items, if any,
// replace the declaration.
func DrawFanout(r *rand.Rand, m *pipelines.Module, how Spread) int {
	whole := math.Floor(m.Fanout)
	switch {
	case len(m.Items) > 0:
		at := r.Float64() * m.Items.Total()
		for _, one := range m.Items {
			if at -= one.Weight; at < 0 {
				return one.Size
			}
		}
		return m.Items.Largest()
	case whole == m.Fanout && m.Most == 0:
		return int(whole)
	case how == SpreadNear:
		if r.Float64() < m.Fanout-whole {
			whole++
		}
		return int(whole)
	case m.Most > 0:
		k, share := 0, m.Fanout/float64(m.Most)
		for range m.Most {
			if r.Float64() < share {
				k++
			}
		}
		return k
	}
	return DrawPoisson(r, m.Fanout)
}

// Times is a time that is random. The zero value is no time at all, always.
type Times struct {
	Least, Most time.Duration // a constant where they are equal, uniform between them elsewhere
	Mean        time.Duration // lognormal where it is above zero, with
	Variation   float64       // that coefficient of variation
	Measured    []Percentile  // with straight lines between them, where there are any
}

// Percentile states which share of the times, in percent, is at most Time.
type Percentile struct {
	Percent float64
	Time    time.Duration
}

// Ways to write Times, beside a constant.
const (
	uniformTimes   = "uniform"
	lognormalTimes = "lognormal"
	measuredTimes  = "percentiles"
)

const timesForm = "write a time such as 1ms, uniform:1ms,3ms, lognormal:1ms,0.3 (mean and coefficient of variation) or percentiles:FILE"

// constantTime is a time that is always the same.
func constantTime(d time.Duration) Times { return Times{Least: d, Most: d} }

// ParseTimes reads a time, "uniform:LEAST,MOST", "lognormal:MEAN,VARIATION" or
// "percentiles:FILE". Of the last it gives the name of the file, which is still to be
// read.
func ParseTimes(text string) (t Times, file string, err error) {
	kind, rest, has := strings.Cut(text, ":")
	if !has {
		d, err := time.ParseDuration(text)
		if err != nil {
			return t, "", errors.New(timesForm)
		}
		return checked(constantTime(d))
	}
	if kind == measuredTimes && rest != "" {
		return t, rest, nil
	}
	a, b, ok := strings.Cut(rest, ",")
	first, err := time.ParseDuration(strings.TrimSpace(a))
	if !ok || err != nil {
		return t, "", errors.New(timesForm)
	}
	b = strings.TrimSpace(b)
	switch kind {
	case uniformTimes:
		t.Least = first
		t.Most, err = time.ParseDuration(b)
	case lognormalTimes:
		t.Mean = first
		t.Variation, err = strconv.ParseFloat(b, 64)
		if err == nil && first <= 0 {
			return t, "", fmt.Errorf("a lognormal time has a mean above zero, not %v", first)
		}
	default:
		err = errors.New(timesForm)
	}
	if err != nil {
		return t, "", errors.New(timesForm)
	}
	return checked(t)
}

func checked(t Times) (Times, string, error) { return t, "", t.Check() }

// mostVariation is the largest coefficient of variation of a lognormal time.
const mostVariation = 10

// Check reports what is wrong with the times.
func (t Times) Check() error {
	switch {
	case t.Least < 0 || t.Mean < 0:
		return fmt.Errorf("a time is not negative, as %v is", min(t.Least, t.Mean))
	case t.Most < t.Least:
		return fmt.Errorf("the longest time, %v, must not be shorter than the shortest, %v", t.Most, t.Least)
	case !(t.Variation >= 0 && t.Variation <= mostVariation):
		return fmt.Errorf("a coefficient of variation is from 0 to %d, not %v", mostVariation, t.Variation)
	}
	for i, p := range t.Measured {
		if !(p.Percent >= 0 && p.Percent <= 100) || p.Time < 0 {
			return fmt.Errorf("percentile %v of %v: percents are from 0 to 100, and times not negative", p.Percent, p.Time)
		}
		if i > 0 && (p.Percent <= t.Measured[i-1].Percent || p.Time < t.Measured[i-1].Time) {
			return fmt.Errorf("percentile %v comes after %v: percents rise, and their times do not fall", p.Percent, t.Measured[i-1].Percent)
		}
	}
	return nil
}

// Random reports whether the time is other than constant.
func (t Times) Random() bool { return t.Most > t.Least || t.Variation > 0 || len(t.Measured) > 1 }

// Quantile is the time that a share q of all is not above, 0 < q < 1. Beyond the
// first and last percentile measured it is theirs.
func (t Times) Quantile(q float64) time.Duration {
	switch n := len(t.Measured); {
	case n > 0:
		at := slices.IndexFunc(t.Measured, func(p Percentile) bool { return p.Percent >= 100*q })
		if at < 0 {
			return t.Measured[n-1].Time
		}
		if at == 0 {
			return t.Measured[0].Time
		}
		a, b := t.Measured[at-1], t.Measured[at]
		part := (100*q - a.Percent) / (b.Percent - a.Percent)
		return a.Time + time.Duration(part*float64(b.Time-a.Time))
	case t.Mean > 0:
		s2 := math.Log1p(t.Variation * t.Variation)
		z := math.Sqrt2 * math.Erfinv(2*q-1)
		return time.Duration(min(float64(t.Mean)*math.Exp(math.Sqrt(s2)*z-s2/2), math.MaxInt64/4))
	}
	return t.Least + time.Duration(q*float64(t.Most-t.Least))
}

// Draw draws a time.
func (t Times) Draw(r *rand.Rand) time.Duration {
	if !t.Random() {
		return t.Quantile(0.5)
	}
	return t.Quantile((float64(r.Uint64()>>11) + 0.5) / (1 << 53))
}

// DrawnDelay is the time that a batch takes through a network: a message, and on top so much
// for each of its requests. How fast the network is just then is drawn once a batch.
type DrawnDelay struct{ Message, Request Times }

// plannedShare is which share of the delays a dispatcher takes a batch to have at most:
// Symphony's goes by a high percentile, too (section 5.4).
const plannedShare = 0.99

// Planned is what a dispatcher expects of the network.
func (d DrawnDelay) Planned() dispatch.Delay {
	return dispatch.Delay{Control: d.Message.Quantile(plannedShare), PerRequest: d.Request.Quantile(plannedShare)}
}

// Random reports whether the delay differs from batch to batch of one size.
func (d DrawnDelay) Random() bool { return d.Message.Random() || d.Request.Random() }

// Draw draws the delay of a batch of b.
func (d DrawnDelay) Draw(r *rand.Rand, b int) time.Duration {
	return dispatch.Delay{Control: d.Message.Draw(r), PerRequest: d.Request.Draw(r)}.Of(b)
}

// FixedDelay is a network with that delay, always.
func FixedDelay(d dispatch.Delay) DrawnDelay {
	return DrawnDelay{constantTime(d.Control), constantTime(d.PerRequest)}
}

// Check reports what is wrong with the delay.
func (d DrawnDelay) Check() error { return errors.Join(d.Message.Check(), d.Request.Check()) }
