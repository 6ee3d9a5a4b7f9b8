package gateway

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// TestAPoolStartsOnWhatItLearns serves a pool of which nothing was measured. The first queries
// measure the kinds; the dispatcher uses it at once, and half a minute later the pool is
// planned with it. No query is lost, and from then on 99 % are in time.
func TestAPoolStartsOnWhatItLearns(t *testing.T) {
	p := ranking()
	p.Profile, p.Learned, p.Network.Model = pipelines.Profile{}, true, "net.onnx"
	p.Sizes, p.Budget, p.Arrivals = shortQueries(), 4, "poisson"
	hardware := []pipelines.Hardware{{Name: "gpu", Price: 1}, {Name: "cpu", Price: 0.2}}
	first := pool.Solve(pool.Problem{Pool: p, Hardware: hardware}, pool.Options{})
	require.Equal(t, map[string]int{"gpu": 3, "cpu": 1}, first.Instances, first.Reason)
	require.Equal(t, 3.2, first.Cost)
	synctest.Test(t, func(t *testing.T) {
		f := servePlan(t, deployPool(p, 1, first))
		l := &queries{t: t, g: f.gateway, rng: rand.New(rand.NewPCG(3, 3))}
		over := make(chan struct{})
		var asking sync.WaitGroup
		asking.Go(func() {
			l.ask(shortQueries(), 60, func() bool {
				select {
				case <-over:
					return true
				default:
					return false
				}
			})
		})
		begin := time.Now()
		var learning autoscale.Learning
		var points []pipelines.Point
		for len(points) == 0 {
			require.Less(t, time.Since(begin), time.Minute)
			time.Sleep(5 * time.Second)
			points = learning.Observe(f.gateway.Measures("p"), p.Base, pool.ServedKinds(p, first), pool.Largest(p))
		}
		known := time.Now()
		q := p
		q.Profile.Points = points
		base := q.Profile.Latency("gpu")
		require.Equal(t, 30, base.Largest())
		require.InDelta(t, 42*ms, base.At(30), float64(ms), "the way to the instance is part of it")
		second := pool.Solve(pool.Problem{Pool: q, Hardware: hardware}, pool.Options{})
		require.NotEqual(t, pool.Infeasible, second.Status, second.Reason)
		require.Greater(t, second.Goodput, 60.0)
		d := deployPool(q, 2, second)
		f.start(d)
		require.NoError(t, f.gateway.Prepare(context.Background(), d))
		require.NoError(t, f.gateway.Install(context.Background(), d))
		f.stop(t, d)
		time.Sleep(3 * time.Minute)
		close(over)
		asking.Wait()
		l.open.Wait()
		before, after := l.attainment(begin, known), l.attainment(known, time.Now())
		t.Logf("%v known after %v (%s), then %v for %.1f queries a second; in time %.2f %%, then %.2f %% of %d in all",
			first.Instances, known.Sub(begin), learning.Describe(points), second.Instances, second.Goodput, 100*before, 100*after, len(l.all))
		require.GreaterOrEqual(t, before, 0.95)
		require.GreaterOrEqual(t, after, 0.99)
		stop(f.gateway, f.workers)
		time.Sleep(time.Minute)
	})
}
