package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// sender offers requests of a tenant, evenly.
type sender struct {
	tenant   *wire.Tenant  // nil for callers without a token
	rate     float64       // per second
	deadline time.Duration // of the caller; 0 leaves it to the objective
}

// compete has senders offer requests for a while and counts what of each was answered
// within the objective.
func compete(g *Gateway, span, slo time.Duration, senders ...sender) []float64 {
	good := make([]atomic.Int64, len(senders))
	var group sync.WaitGroup
	for k, s := range senders {
		for i := range int(s.rate * span.Seconds()) {
			group.Go(func() {
				time.Sleep(time.Duration((float64(i) + 0.3*float64(k)) / s.rate * float64(time.Second)))
				ctx := wire.WithTenant(context.Background(), s.tenant)
				if s.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, s.deadline)
					defer cancel()
				}
				begin := time.Now()
				if _, err := g.Infer(ctx, &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)}); err == nil && time.Since(begin) <= slo {
					good[k].Add(1)
				}
			})
		}
	}
	group.Wait()
	rates := make([]float64, len(senders))
	for k := range rates {
		rates[k] = float64(good[k].Load()) / span.Seconds()
	}
	return rates
}

// contested is a test of two modules in a row, each of which does 200 requests a second
// in full batches.
func contested(t *testing.T, slo, span time.Duration, senders ...sender) (rates []float64) {
	synctest.Test(t, func(t *testing.T) {
		p := single(slo)
		p.Modules[0].Profile = pipelines.Profile{Points: []pipelines.Point{
			{Hardware: "cpu", Batch: 1, Duration: 10 * ms}, {Hardware: "cpu", Batch: 4, Duration: 20 * ms},
		}}
		p.Modules = append(p.Modules, pipelines.Module{Name: "n", Model: "n", Inputs: []pipelines.Binding{bind("x", "m", "y")}, Profile: p.Modules[0].Profile})
		p.Outputs = []pipelines.Output{{Name: "y", From: ref("n", "y")}}
		p.Rate, p.Arrivals = 180, "poisson"
		specs := map[string]spec{
			"m": {kind: addOne, batch: 4, window: 40 * ms, duration: 20 * ms},
			"n": {kind: addOne, batch: 4, window: 40 * ms, duration: 20 * ms},
		}
		g, workers := serve(t, Options{}, deployment(p, 1, specs), specs)
		for _, w := range workers {
			w.delay = func(n int) time.Duration { return time.Duration(10+10*(n-1)/3) * ms }
		}
		rates = compete(g, span, slo, senders...)
		stop(g, workers)
		time.Sleep(time.Minute)
	})
	return rates
}

// A tenant that floods takes nothing of what another sends within its share.
func TestAFloodTakesNothingOfAnothersShare(t *testing.T) {
	const slo, span = 400 * ms, 20 * time.Second
	quiet := sender{tenant: &wire.Tenant{Name: "quiet"}, rate: 70}
	for name, flood := range map[string]sender{
		"many requests":           {tenant: &wire.Tenant{Name: "flood"}, rate: 2000},
		"with little time":        {tenant: &wire.Tenant{Name: "flood"}, rate: 2000, deadline: 120 * ms},
		"that cannot be answered": {tenant: &wire.Tenant{Name: "flood"}, rate: 2000, deadline: 15 * ms},
		"without a token":         {rate: 2000},
	} {
		got := contested(t, slo, span, quiet, flood)
		t.Logf("%s: quiet %.1f/s of %.0f/s in time, flood %.1f/s", name, got[0], quiet.rate, got[1])
		assert.GreaterOrEqual(t, got[0], 0.99*quiet.rate, name)
		if flood.deadline != 15*ms {
			assert.GreaterOrEqual(t, got[1], 60.0, "%s: what is left is the other's", name)
		}
	}
}

// Without names the same flood takes nearly all.
func TestWithoutTokensFirstComeFirstServed(t *testing.T) {
	const slo, span = 400 * ms, 10 * time.Second
	got := contested(t, slo, span, sender{rate: 70}, sender{rate: 2000})
	require.Less(t, got[0], 35.0)
}

// Tenants that all send more than they can have are served in proportion to their weights.
func TestWeightsDivideWhatIsTakenIn(t *testing.T) {
	const slo, span = 400 * ms, 20 * time.Second
	got := contested(t, slo, span,
		sender{tenant: &wire.Tenant{Name: "a", Weight: 3}, rate: 800},
		sender{tenant: &wire.Tenant{Name: "b"}, rate: 1600})
	t.Logf("weights 3 and 1: %.1f/s and %.1f/s", got[0], got[1])
	require.InEpsilon(t, 3, got[0]/got[1], 0.1)
	require.Greater(t, got[0]+got[1], 150.0)
}

// Kinds of streams share what devices can still do, here five in nine, in proportion to the frames that are planned
// for and to their weights.
func TestKindsOfStreamsShareByWeight(t *testing.T) {
	const span = 20 * time.Second
	for name, test := range map[string]struct{ rates, weights [2]float64 }{
		"alike":           {[2]float64{10, 10}, [2]float64{0, 0}},
		"by frames":       {[2]float64{15, 5}, [2]float64{0, 0}},
		"one counts more": {[2]float64{10, 10}, [2]float64{4, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			p := single(400 * ms)
			for k, of := range []string{"a", "b"} {
				p.Kinds = append(p.Kinds, pipelines.Stream{Kind: of, Rate: test.rates[k], Count: 9, Jitter: 20 * ms, Weight: test.weights[k]})
			}
			p.Rate = p.StreamsTotal()
			var good [2]atomic.Int64
			filmedBy(t, p, spec{kind: addOne, batch: 4, duration: 40 * ms}, func(g *Gateway, _ map[string]*worker) {
				var group sync.WaitGroup
				for k, kind := range p.Kinds {
					for i := range kind.Count {
						name, phase := fmt.Sprint(kind.Kind, i), time.Duration(i)*7*ms
						for n := range int(kind.Rate * span.Seconds()) {
							group.Go(func() {
								time.Sleep(phase + time.Duration(float64(n)/kind.Rate*float64(time.Second)))
								if _, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2), Frame: wire.Frame{Stream: name, Kind: kind.Kind}}); err == nil {
									good[k].Add(1)
								}
							})
						}
					}
				}
				group.Wait()
			})
			a, b := float64(good[0].Load())/span.Seconds(), float64(good[1].Load())/span.Seconds()
			t.Logf("%.1f/s and %.1f/s of 100/s", a, b)
			want := max(test.weights[0], 1) * test.rates[0] / test.rates[1]
			require.InEpsilon(t, want, a/b, 0.15)
			require.Greater(t, a+b, 85.0)
		})
	}
}

// The bound on requests under way is shared in the same way.
func TestRequestsUnderWayAreShared(t *testing.T) {
	o := Options{MaxInFlight: 20}
	bubble(t, o, time.Hour, spec{kind: addOne, batch: 1, duration: 20 * ms}, func(g *Gateway, _ map[string]*worker) {
		got := compete(g, 10*time.Second, time.Second, sender{tenant: &wire.Tenant{Name: "quiet"}, rate: 20}, sender{tenant: &wire.Tenant{Name: "flood"}, rate: 1000})
		assert.InDelta(t, 20, got[0], 0.5)
		assert.InDelta(t, 30, got[1], 2)
	})
}

func TestATokenMaySendSoMany(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, batch: 1, duration: ms}, func(g *Gateway, _ map[string]*worker) {
		limited := &wire.Tenant{Name: "batch", Rate: 10}
		got := compete(g, 20*time.Second, time.Second, sender{tenant: limited, rate: 100}, sender{tenant: &wire.Tenant{Name: "other"}, rate: 50})
		require.InDelta(t, 10, got[0], 1, "and a second's worth at the start")
		require.InDelta(t, 50, got[1], 0.1)
		_, err := g.Infer(wire.WithTenant(context.Background(), &wire.Tenant{Name: "batch", Rate: 0.001}), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
		require.NoError(t, err, "another limit holds from now on")
		_, err = g.Infer(wire.WithTenant(context.Background(), &wire.Tenant{Name: "batch", Rate: 0.001}), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
		var e *wire.Error
		require.True(t, errors.As(err, &e))
		require.Equal(t, wire.CodeOverloaded, e.Code)
		require.Contains(t, e.Reason, `"batch"`)
	})
}
