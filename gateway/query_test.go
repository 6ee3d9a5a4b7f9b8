package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// ranking is a pool of a base that takes 10 ms and 1 ms an item, and of an
// auxiliary kind that takes 4 ms an item and is in time up to 12 items.
func ranking() pipelines.Pool {
	p := pipelines.Pool{Name: "p", SLO: 50 * ms, Budget: 10, Base: "gpu", Hardware: []string{"gpu", "cpu"}}
	for _, size := range []int{1, 10, 30} {
		p.Profile.Points = append(p.Profile.Points,
			pipelines.Point{Hardware: "gpu", Batch: size, Concurrency: 1, Duration: 10*ms + time.Duration(size)*ms},
			pipelines.Point{Hardware: "cpu", Batch: size, Concurrency: 1, Duration: time.Duration(4*size) * ms})
	}
	return p
}

func poolDeployment(p pipelines.Pool, generation int, instances map[string]int) placement.Deployment {
	return deployPool(p, generation, pool.Plan{Pool: p.Name, Status: pool.Feasible, Instances: instances, Coefficients: map[string]float64{"gpu": 1, "cpu": 0.3}})
}

// deployPool deploys what a plan chose; instances that two generations have go by one name.
func deployPool(p pipelines.Pool, generation int, chosen pool.Plan) placement.Deployment {
	d := placement.Deployment{Generation: generation, Pipeline: p.Served(), Plan: pool.Served(p, chosen)}
	for g, group := range d.Plan.Modules[0].Groups {
		for i := range chosen.Instances[group.Hardware] {
			d.Slots = append(d.Slots, placement.Slot{
				Executor: fmt.Sprintf("%s/%d", group.Hardware, i), Pipeline: p.Name, Module: pipelines.PoolModule,
				Group: g, Batch: group.Batch, Duration: group.Duration, Hardware: group.Hardware, Host: "h",
			})
		}
	}
	return pool.Deploy(d, p, chosen)
}

// doubling answers every item of a query with twice its value.
var doubling = kind{
	sig: pipelines.Signature{Inputs: []pipelines.Port{port("items", "FP32", 1)}, Outputs: []pipelines.Port{port("scores", "FP32", 1)}},
	run: func(in []wire.Tensor) []wire.Tensor {
		return []wire.Tensor{wire.FromFloat32([]float32{2 * floats(in[0])[0]}, 1)}
	},
}

// servePool serves a deployment of ranking on instances that take as long as
// the profile states, slowed down by a factor.
func servePool(t testing.TB, o Options, d placement.Deployment, slow float64) (*Gateway, map[string]*worker) {
	g := recorded(t, o)
	workers := map[string]*worker{}
	profile := ranking().Profile
	for _, s := range d.Slots {
		latency := profile.Latency(s.Hardware)
		w := &worker{kind: doubling, delay: func(n int) time.Duration { return time.Duration(slow * float64(latency.At(n))) }}
		w.hello = attach.Hello{Executor: s.Executor, Pipeline: s.Pipeline, Module: s.Module, Host: s.Host, MaxBatch: s.Batch, Concurrency: 1}
		w.attach(g)
		workers[s.Executor] = w
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, g.Prepare(ctx, d))
	require.NoError(t, g.Install(ctx, d))
	return g, workers
}

func query(g *Gateway, size int) (*wire.InferResponse, *wire.Error) {
	values := make([]float32, size)
	for i := range values {
		values[i] = float32(i + 1)
	}
	in := []wire.NamedTensor{{Name: "items", Tensor: wire.FromFloat32(values, int64(size), 1)}}
	resp, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: in})
	if err != nil {
		return nil, err.(*wire.Error)
	}
	return resp, nil
}

func TestQueriesRunAsOneBatchOfTheirItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := poolDeployment(ranking(), 1, map[string]int{"gpu": 1, "cpu": 1})
		g, workers := servePool(t, Options{}, d, 1)
		for _, size := range []int{1, 7, 30} {
			r, err := query(g, size)
			require.Nil(t, err)
			scores := tensors(r.Outputs)["scores"]
			require.Equal(t, []int64{int64(size), 1}, scores.Shape)
			for i, v := range floats(scores) {
				require.Equal(t, float32(2*(i+1)), v)
			}
			require.Equal(t, size, r.Stages[0].Batch)
		}
		require.Contains(t, workers["gpu/0"].sizes, 30, "only the base has time for it")
		about, err := g.Metadata(context.Background(), "p")
		require.NoError(t, err)
		require.Equal(t, []pipelines.Port{port("items", "FP32", -1, 1)}, about.Inputs)
		require.Equal(t, []pipelines.Port{port("scores", "FP32", -1, 1)}, about.Outputs)
		m := g.Measures("p").Modules[0]
		require.Equal(t, "matching", m.Policy)
		require.Equal(t, []autoscale.QueryCount{{Size: 1, Queries: 1}, {Size: 7, Queries: 1}, {Size: 30, Queries: 1}}, m.Queries)
		require.InDelta(t, 38.0/3, m.MeanBatch, 1e-9)
		stop(g, workers)
		time.Sleep(time.Minute)
	})
}

func TestQueriesOutsideTheProfileAreRefused(t *testing.T) {
	d := poolDeployment(ranking(), 1, map[string]int{"gpu": 1})
	g, workers := servePool(t, Options{}, d, 0)
	defer stop(g, workers)
	_, err := query(g, 31)
	require.Equal(t, wire.CodeInvalid, err.Code)
	require.Contains(t, err.Reason, `a query of 31 items is beyond the profile of pool "p", which ends at 30`)
	_, err = query(g, 0)
	require.Equal(t, wire.CodeInvalid, err.Code)
	require.Contains(t, err.Reason, "has no rows")
	require.Zero(t, g.Measures("p").Arrived, "what is wrong in itself is no load")
}

// Instances are twice as slow as their profile: latencies are learned, what the
// small kind cannot do in time any more goes to the base, and a new plan goes
// on with what was learned.
func TestLatenciesAreLearnedAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := ranking()
		p.SLO = 90 * ms
		g, workers := servePool(t, Options{}, poolDeployment(p, 1, map[string]int{"gpu": 1, "cpu": 1}), 2)
		late := 0
		ask := func() {
			r, err := query(g, 15) // 60 ms on cpu by the profile, 120 ms in truth; 50 ms on the base
			if err != nil || r.Elapsed > p.SLO {
				late++
			}
			time.Sleep(200 * ms)
		}
		for range 20 {
			ask()
		}
		require.LessOrEqual(t, late, 2, "the first queries measure the instances")
		before := late
		require.NoError(t, g.Install(context.Background(), poolDeployment(p, 2, map[string]int{"gpu": 1, "cpu": 1})))
		for range 5 {
			ask()
		}
		require.Equal(t, before, late, "what was learned is not forgotten")
		stop(g, workers)
		time.Sleep(time.Minute)
	})
}

// Queries of all sizes, instances that break, and changes of the plan under
// load: every query has exactly one outcome.
func TestEveryQueryEndsOnce(t *testing.T) {
	g := New(Options{Grace: 20 * time.Millisecond})
	d := poolDeployment(ranking(), 1, map[string]int{"gpu": 2, "cpu": 3})
	var mu sync.Mutex
	workers := map[string]*worker{}
	var all []*worker
	attachAll := func(d placement.Deployment) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range d.Slots {
			if workers[s.Executor] == nil {
				w := &worker{kind: doubling, delay: func(n int) time.Duration { return time.Duration(n) * 20 * time.Microsecond }}
				w.hello = attach.Hello{Executor: s.Executor, Pipeline: s.Pipeline, Module: s.Module, Host: s.Host, MaxBatch: s.Batch, Concurrency: 1}
				w.attach(g)
				workers[s.Executor], all = w, append(all, w)
			}
		}
	}
	attachAll(d)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, g.Prepare(ctx, d))
	require.NoError(t, g.Install(ctx, d))
	var group sync.WaitGroup
	over := make(chan struct{})
	outcomes := make([]int64, 2)
	for client := range 8 {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(client), 1))
			for {
				select {
				case <-over:
					return
				default:
				}
				size := 1 + rng.IntN(30)
				r, err := query(g, size)
				mu.Lock()
				if err != nil {
					outcomes[1]++
				} else {
					outcomes[0]++
					if got := tensors(r.Outputs)["scores"].Shape[0]; got != int64(size) {
						t.Errorf("%d answers to %d items", got, size)
					}
				}
				mu.Unlock()
			}
		})
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range 40 {
		time.Sleep(3 * time.Millisecond)
		mu.Lock()
		for name, w := range workers {
			if rng.IntN(4) == 0 {
				_ = w.stream.Close()
				delete(workers, name)
			}
		}
		mu.Unlock()
		d = poolDeployment(ranking(), 2+i, map[string]int{"gpu": 1 + i%2, "cpu": i % 4})
		attachAll(d)
		require.NoError(t, g.Install(ctx, d))
	}
	close(over)
	group.Wait()
	totals := g.Totals("p")
	answered := totals[Completed] + totals[Late]
	require.Equal(t, outcomes[0], answered)
	require.Equal(t, outcomes[1], totals[Dropped]+totals[Refused]+totals[Failed]+totals[Cancelled])
	require.Greater(t, answered, int64(100))
	require.Zero(t, g.Measures("p").InFlight)
	_ = g.Close()
	for _, w := range all {
		<-w.done
	}
}
