package load

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

func TestParseArrivals(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, os.WriteFile(trace, []byte("# per second\n3\n\n0\n5\n"), 0o600))
	for _, c := range []struct {
		in   string
		want Arrivals
		err  string
	}{
		{in: "", want: Arrivals{Kind: "even"}},
		{in: "even", want: Arrivals{Kind: "even"}},
		{in: "poisson", want: Arrivals{Kind: "poisson"}},
		{in: "gamma:0.1", want: Arrivals{Kind: "gamma", Shape: 0.1}},
		{in: "trace:" + trace, want: Arrivals{Kind: "trace", Trace: []float64{3, 0, 5}}},
		{in: "gamma:-1", err: "positive number"},
		{in: "gamma:NaN", err: "positive number"},
		{in: "trace:/nowhere", err: "no such file"},
		{in: "bursty", err: "use even, poisson"},
	} {
		got, err := ParseArrivals(c.in)
		if c.err != "" {
			assert.ErrorContains(t, err, c.err, c.in)
			continue
		}
		require.NoError(t, err, c.in)
		assert.Equal(t, c.want, got)
	}
}

func TestReadTraceNamesTheLine(t *testing.T) {
	_, err := ReadTrace(strings.NewReader("1\n-2\n"), "counts.txt")
	assert.ErrorContains(t, err, "counts.txt:2")
	_, err = ReadTrace(strings.NewReader("0\n0\n"), "counts.txt")
	assert.ErrorContains(t, err, "no requests")
}

func TestInstantsRiseAndKeepTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SampledFrom([]Arrivals{
			{}, {Kind: "poisson"}, {Kind: "gamma", Shape: 0.5}, {Kind: "gamma", Shape: 4},
			{Kind: "trace", Trace: []float64{10, 0, 50, 20}},
		}).Draw(t, "arrivals")
		rate := rapid.Float64Range(20, 500).Draw(t, "rate")
		seed := rapid.Uint64().Draw(t, "seed")
		const span = 200 * time.Second
		at, err := a.Instants(rate, span, seed)
		require.NoError(t, err)
		require.True(t, slices.IsSorted(at))
		require.Less(t, at[len(at)-1], span)
		require.GreaterOrEqual(t, at[0], time.Duration(0))
		mean := rate * span.Seconds()
		// Eight standard deviations of the burstiest kind above.
		assert.InDelta(t, mean, len(at), 8*math.Sqrt(mean/0.5)+1)
		again, _ := a.Instants(rate, span, seed)
		assert.Equal(t, at, again, "the same seed draws the same instants")
	})
}

func TestInstantsRefuseNonsense(t *testing.T) {
	for _, rate := range []float64{-1, math.NaN(), math.Inf(1)} {
		_, err := Arrivals{}.Instants(rate, time.Second, 1)
		assert.Error(t, err)
	}
}

func TestRunCountsEveryRequestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		report, err := Run(t.Context(), Options{
			Pipeline: "p", SLO: 100 * time.Millisecond, Rate: 10, Duration: 10 * time.Second, Warmup: 2 * time.Second, Seed: 1,
		}, func(ctx context.Context, n int) (*wire.InferResponse, error) {
			sent.Add(1)
			switch n % 4 {
			case 0:
				return nil, wire.Errorf(wire.CodeDeadline, "detect", "late")
			case 1:
				time.Sleep(200 * time.Millisecond)
			case 2:
				return nil, errors.New("connection refused")
			}
			time.Sleep(10 * time.Millisecond)
			return &wire.InferResponse{Stages: []wire.Stage{{Module: "detect", Items: 1, Batch: 2, Compute: 10 * time.Millisecond}}}, nil
		})
		require.NoError(t, err)
		assert.EqualValues(t, 120, sent.Load())
		assert.Equal(t, 100, report.Requests)
		assert.Equal(t, 25, report.Completed)
		assert.Equal(t, 25, report.Late)
		assert.Equal(t, map[string]int{"deadline": 25, "unavailable": 25}, report.Errors)
		assert.InDelta(t, 0.25, report.Attainment, 1e-9)
		assert.Equal(t, 2.0, report.Stages[0].MeanBatch)
	})
}

func TestLatencyCountsFromTheIntendedInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A target that stalls for its caller: the generator must not wait for it.
		report, err := Run(t.Context(), Options{Pipeline: "p", SLO: time.Second, Rate: 100, Duration: time.Second, Seed: 1},
			func(ctx context.Context, n int) (*wire.InferResponse, error) {
				time.Sleep(500 * time.Millisecond)
				return &wire.InferResponse{}, nil
			})
		require.NoError(t, err)
		assert.Equal(t, 100, report.Completed)
		assert.InDelta(t, 0.5, report.Latency.P99.Seconds(), 0.01)
		assert.InDelta(t, 1.5, report.Elapsed.Seconds(), 0.01)
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		report, err := Run(ctx, Options{Pipeline: "p", SLO: time.Second, Rate: 10, Duration: time.Hour, Seed: 1},
			func(ctx context.Context, n int) (*wire.InferResponse, error) { return &wire.InferResponse{}, nil })
		require.NoError(t, err)
		assert.InDelta(t, 30, report.Requests, 1)
	})
}

func TestReportAsTextAndJSON(t *testing.T) {
	r := &Report{Pipeline: "traffic", SLO: 400 * time.Millisecond, Offered: 8, Requests: 4, Completed: 3, Errors: map[string]int{"overloaded": 1},
		Attainment: 0.75, Latency: Percentiles{P50: 20 * time.Millisecond}, Stages: []Stage{{Module: "detect", Items: 1, MeanBatch: 1.5}}}
	assert.Contains(t, r.Describe(), "attainment 0.7500: 3 in time")
	assert.Contains(t, r.Describe(), "1 overloaded")
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	var back map[string]any
	require.NoError(t, json.Unmarshal(raw, &back))
	assert.Equal(t, 400.0, back["slo_ms"])
	assert.Equal(t, 0.75, back["attainment"])
}
