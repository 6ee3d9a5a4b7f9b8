package arrivals_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want arrivals.Process
		file string
		err  string
	}{
		{in: "", want: arrivals.Process{Kind: "even"}},
		{in: "even", want: arrivals.Process{Kind: "even"}},
		{in: "poisson", want: arrivals.Process{Kind: "poisson"}},
		{in: "gamma:0.1", want: arrivals.Process{Kind: "gamma", Shape: 0.1}},
		{in: "trace:counts.csv", want: arrivals.Process{Kind: "trace"}, file: "counts.csv"},
		{in: "replay:stamps.csv", want: arrivals.Process{Kind: "replay"}, file: "stamps.csv"},
		{in: "gamma:-1", err: "a number from 0.001 to 1e+06"},
		{in: "gamma:1e-9", err: "a number from 0.001 to 1e+06"},
		{in: "gamma:NaN", err: "a number from 0.001 to 1e+06"},
		{in: "poisson:3", err: "poisson takes nothing after it"},
		{in: "trace:", err: "name the file"},
		{in: "replay:", err: "there is even, poisson, gamma:SHAPE and trace:FILE, and replay:FILE"},
		{in: "bursty", err: `there are no arrivals "bursty"`},
	} {
		got, file, err := arrivals.Parse(c.in)
		if c.err != "" {
			assert.ErrorContains(t, err, c.err, c.in)
			continue
		}
		require.NoError(t, err, c.in)
		assert.Equal(t, c.want, got)
		assert.Equal(t, c.file, file)
		if file == "" {
			again, _, err := arrivals.Parse(got.String())
			require.NoError(t, err)
			assert.Equal(t, got, again)
		}
	}
}

func TestInstantsRiseAndKeepTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]arrivals.Process{
			{}, {Kind: "poisson"}, {Kind: "gamma", Shape: 0.5}, {Kind: "gamma", Shape: 4},
			{Kind: "trace", Trace: &pipelines.Trace{Seconds: []int64{0, 2, 3}, Counts: []float64{10, 50, 20}}},
		}).Draw(t, "arrivals")
		rate := rapid.Float64Range(20, 500).Draw(t, "rate")
		seed := rapid.Uint64().Draw(t, "seed")
		const span = 200 * time.Second
		at, err := p.Instants(rate, span, seed)
		require.NoError(t, err)
		require.True(t, slices.IsSorted(at))
		require.Less(t, at[len(at)-1], span)
		require.GreaterOrEqual(t, at[0], time.Duration(0))
		mean := rate * span.Seconds()
		// Eight standard deviations of the burstiest kind above.
		assert.InDelta(t, mean, len(at), 8*math.Sqrt(mean/0.5)+1)
		again, _ := p.Instants(rate, span, seed)
		assert.Equal(t, at, again, "the same seed draws the same instants")
	})
}

func TestInstantsRefuseNonsense(t *testing.T) {
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err := arrivals.Process{}.Instants(rate, time.Second, 1)
		assert.Error(t, err)
	}
	for _, p := range []arrivals.Process{
		{Kind: "bursty"}, {Kind: "gamma"}, {Kind: "gamma", Shape: math.Inf(1)}, {Kind: "trace"},
		{Kind: arrivals.Replay}, {Kind: arrivals.Replay, Stamps: []time.Duration{2, 1}},
	} {
		_, err := p.Instants(1, time.Second, 1)
		assert.Error(t, err, "%+v", p)
	}
	none, err := arrivals.Process{}.Instants(0, time.Second, 1)
	assert.NoError(t, err)
	assert.Empty(t, none)
}
