package pool

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/matching"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

const ms = time.Millisecond

// trialRounding is the relative error that whole nanoseconds leave.
const trialRounding = 1e-6

// line is a latency of each·size.
func line(each time.Duration) pipelines.Latency {
	return pipelines.Latency{
		{Batch: 1, Concurrency: 1, Duration: each},
		{Batch: 100, Concurrency: 1, Duration: 100 * each},
	}
}

// pair is a pool of a base that takes 1 ms an item and another type that takes
// 2 ms, with an objective of 100 ms.
func pair(base, other int) TrialPool {
	return TrialPool{SLO: 100 * ms, Counts: []int{base, other}, Types: []TrialType{{"base", line(ms)}, {"other", line(2 * ms)}}}
}

func kairos(t require.TestingT, p TrialPool, known bool) func() dispatch.Policy {
	return func() dispatch.Policy {
		o := matching.Options{Base: int32(p.Base), SLO: p.SLO}
		for _, x := range p.Types {
			one := matching.InstanceType{Name: x.Name}
			if known {
				one.Latency = x.Latency
			}
			o.Types = append(o.Types, one)
		}
		d, err := matching.New(o)
		require.NoError(t, err)
		return d
	}
}

// TestRunCountsEveryQuery holds the accounts of all policies, with noise, too.
func TestRunCountsEveryQuery(t *testing.T) {
	mix := pipelines.Mix{{Size: 5, Weight: 5}, {Size: 30, Weight: 3}, {Size: 80, Weight: 1}}
	rapid.Check(t, func(t *rapid.T) {
		p := pair(rapid.IntRange(1, 3).Draw(t, "base"), rapid.IntRange(0, 4).Draw(t, "other"))
		p.Noise = rapid.SampledFrom([]float64{0, 0.05}).Draw(t, "noise")
		l := Draw(mix, 200, gamma(rapid.SampledFrom([]float64{0, 0.3, 1, 10}).Draw(t, "arrivals")), rapid.Uint64().Draw(t, "seed"))
		rate := rapid.Float64Range(1, 500).Draw(t, "rate")
		for _, d := range []dispatch.Policy{kairos(t, p, true)(), kairos(t, p, false)()} {
			r, err := runTrial(p, d, l, rate, simulate.Options{})
			require.NoError(t, err, d.Name())
			one := r.Pipelines[0]
			require.EqualValues(t, l.Len(), one.Completed+one.Late+one.Dropped, d.Name())
			require.Zero(t, d.Len(), d.Name())
			for _, device := range r.Devices {
				require.LessOrEqual(t, device.Utilisation, 1+trialRounding)
			}
		}
	})
}

func TestDraw(t *testing.T) {
	mix := pipelines.Mix{{Size: 5, Weight: 3}, {Size: 30, Weight: 0}, {Size: 80, Weight: 1}}
	const n = 20000
	var first TrialLoad
	for _, shape := range []float64{0, 0.4, 1, publishedArrivals().Shape} {
		l := Draw(mix, n, gamma(shape), 7)
		if first.sizes == nil {
			first = l
		}
		assert.Equal(t, first.sizes, l.sizes, "the sizes do not depend on the arrivals")
		assert.InEpsilon(t, float64(n)/100, l.Span(100).Seconds(), 0.05)
		mean, square, before := 0.0, 0.0, 0.0
		for _, stamp := range l.arrivals.Stamps {
			at := stamp.Seconds()
			gap := at - before
			before = at
			mean, square = mean+gap/n, square+gap*gap/n
		}
		if shape > 0 {
			assert.InEpsilon(t, 1/math.Sqrt(shape), math.Sqrt(square-mean*mean)/mean, 0.06, "variation of gaps")
		}
	}
	drawn := first.Mix()
	require.Len(t, drawn, 2)
	assert.InEpsilon(t, 0.75, drawn[0].Weight/n, 0.02)
}

func TestParseArrivals(t *testing.T) {
	for text, want := range map[string]string{"": "even", "even": "even", "poisson": "poisson", "gamma:2.5": "gamma:2.5"} {
		got, err := parseArrivals(text)
		require.NoError(t, err)
		assert.Equal(t, want, got.String())
	}
	for _, text := range []string{"trace:x", "gamma:", "gamma:-1", "often"} {
		_, err := parseArrivals(text)
		assert.Error(t, err, text)
	}
}

// TestGoodput compares with what can be worked out: one instance, even
// arrivals, queries of 10 ms.
func TestGoodput(t *testing.T) {
	p := pair(1, 0)
	mix := pipelines.Mix{{Size: 10, Weight: 1}}
	got, err := DefaultTrialSearch().Goodput(p, kairos(t, p, true), Draw(mix, 5000, gamma(0), 1), 300)
	require.NoError(t, err)
	assert.InEpsilon(t, 100/0.99, got, 0.01, "at 101 a second one in a hundred is dropped")
}

// TestMatchingLearnsOnLine holds that a pool without profiles, with noise too, sustains
// nearly as much as one that was profiled.
func TestMatchingLearnsOnLine(t *testing.T) {
	p := pair(2, 4)
	mix := pipelines.Mix{{Size: 5, Weight: 5}, {Size: 20, Weight: 3}, {Size: 40, Weight: 1}, {Size: 80, Weight: 0.5}}
	l := Draw(mix, 6000, publishedArrivals(), 1)
	goodput := func(known bool) float64 {
		rate, err := DefaultTrialSearch().Goodput(p, kairos(t, p, known), l, 600)
		require.NoError(t, err)
		return rate
	}
	told := goodput(true)
	assert.InEpsilon(t, told, goodput(false), 0.03)
	p.Noise = 0.05
	assert.InEpsilon(t, told, goodput(false), 0.1)
}

// gamma are arrivals of that shape, even ones where it is zero.
func gamma(shape float64) arrivals.Process {
	if shape == 0 {
		return arrivals.Process{}
	}
	return arrivals.Process{Kind: pipelines.ArrivalsGamma, Shape: shape}
}
