package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

// dispatched is a deployment under a policy.
func dispatched(d placement.Deployment, generation int, policy string) placement.Deployment {
	d.Generation, d.Pipeline.Dispatch = generation, policy
	return d
}

func TestEveryPolicyServes(t *testing.T) {
	for _, policy := range pipelines.Dispatches(pipelines.KindPipeline) {
		t.Run(policy, func(t *testing.T) {
			s := spec{kind: addOne, batch: 4, window: 30 * ms, duration: 20 * ms, executors: 2}
			bubble(t, Options{}, 100*ms, s, func(g *Gateway, w map[string]*worker) {
				d := dispatched(g.pipeline("p").current.Load().Deployment, 2, policy)
				require.NoError(t, g.Install(context.Background(), d))
				var group sync.WaitGroup
				for i := range 40 {
					at(g, time.Duration(i)*11*ms, &group, func(r *wire.InferResponse, err *wire.Error) { // what single requests bear, too
						if assert.Nil(t, err) {
							assert.LessOrEqual(t, r.Elapsed, 100*ms)
							requireSum(t, r)
						}
					})
				}
				group.Wait()
				m := g.Measures("p").Modules[0]
				require.Equal(t, policy, m.Policy)
				require.Equal(t, int64(40), m.Requests)
				batches, requests := int64(0), int64(0)
				for _, c := range m.Sizes {
					batches += c.Batches
					requests += int64(c.Size) * c.Batches
				}
				require.Equal(t, []int64{m.Batches, 40}, []int64{batches, requests})
				require.InDelta(t, m.MeanBatch, 40/float64(batches), 1e-9)
				require.Empty(t, m.Drops)
			})
		})
	}
}

// A policy that holds batches back waits on purpose; that is no queue.
func TestHeldBatchesWait(t *testing.T) {
	bubble(t, Options{Margin: 10 * ms}, 100*ms, spec{kind: addOne, batch: 4, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		d := g.pipeline("p").current.Load().Deployment
		require.NoError(t, g.Install(context.Background(), dispatched(d, 2, "deferred")))
		r, err := ask(context.Background(), g)
		require.Nil(t, err)
		require.Greater(t, r.Elapsed, 30*ms, "held for others that might come")
		require.LessOrEqual(t, r.Elapsed, 90*ms, "but not into the margin")
		require.Zero(t, r.Stages[0].Queue)
		require.Equal(t, r.Elapsed-20*ms, r.Stages[0].Wait)
	})
}

func TestDropsAreCountedByReason(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int64{}
	o := Options{MaxQueue: 3, Observer: Observer{Dropped: func(i DropInfo) {
		mu.Lock()
		defer mu.Unlock()
		seen[i.Pipeline+" "+i.Module+" "+i.Reason]++
	}}}
	bubble(t, o, 50*ms, spec{kind: addOne, duration: 5 * ms}, func(g *Gateway, w map[string]*worker) {
		for _, one := range w { // by the profile all would be in time, so that none is refused at the door
			one.delay = func(int) time.Duration { return 20 * ms }
		}
		var group sync.WaitGroup
		for range 6 { // two in time, two that may not wait any longer, two too many
			at(g, 0, &group, func(*wire.InferResponse, *wire.Error) {})
		}
		group.Wait()
		m := g.Measures("p").Modules[0]
		require.Equal(t, map[string]int64{autoscale.DropLate: 2, autoscale.DropFull: 2}, m.Drops)
		require.Equal(t, int64(4), m.Dropped)
		require.Equal(t, map[string]int64{"p m late": 2, "p m full": 2}, seen)
	})
}

// A policy that is replaced while it holds requests back hands all of them on.
func TestWaitingRequestsMoveToTheNewPolicy(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, batch: 8, window: 10 * ms, duration: 20 * ms}, func(g *Gateway, w map[string]*worker) {
		d := g.pipeline("p").current.Load().Deployment
		require.NoError(t, g.Install(context.Background(), dispatched(d, 2, "deferred")))
		var group sync.WaitGroup
		for range 5 {
			at(g, 0, &group, func(r *wire.InferResponse, err *wire.Error) {
				require.Nil(t, err)
				require.LessOrEqual(t, r.Elapsed, 90*ms, "tc starts at once what has waited longer than its window: one, and then the others")
			})
		}
		time.Sleep(50 * ms)
		require.Equal(t, 5, g.Measures("p").Modules[0].Waiting)
		require.NoError(t, g.Install(context.Background(), dispatched(d, 3, "tc")))
		group.Wait()
		require.Equal(t, map[Outcome]int64{Completed: 5, Late: 0, Dropped: 0, Refused: 0, Failed: 0, Cancelled: 0, Invalid: 0}, g.Totals("p"))
	})
}

func TestChangingThePolicyUnderLoadLosesNothing(t *testing.T) {
	specs := fanningSpecs()
	for name, s := range specs {
		s.executors, s.batch, s.window, s.duration = 2, 4, time.Millisecond, 100*time.Microsecond
		specs[name] = s
	}
	first := deployment(fanning(long), 1, specs)
	g, workers := serve(t, Options{}, first, specs)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	end := load(g, 8, askFanning)
	policies := pipelines.Dispatches(pipelines.KindPipeline)
	const changes = 60
	for i := range changes {
		d := dispatched(first, 2+i, policies[(i+1)%len(policies)])
		require.NoError(t, g.Prepare(ctx, d))
		require.NoError(t, g.Install(ctx, d))
		time.Sleep(2 * time.Millisecond)
	}
	sent, errs := end()
	require.Empty(t, errs)
	require.Greater(t, sent, int64(changes))
	require.Equal(t, sent, g.Totals("p")[Completed], fmt.Sprint(g.Totals("p")))
	require.Zero(t, g.Measures("p").InFlight)
	stop(g, workers)
}

func TestAPolicyThatCannotServeIsRefused(t *testing.T) {
	specs := map[string]spec{"m": {kind: addOne, duration: ms}}
	d := deployment(single(time.Second), 1, specs)
	g, workers := serve(t, Options{}, d, specs)
	defer stop(g, workers)
	for policy, why := range map[string]string{"matching": "Declare a pool block", "grouped": "Declare a function block", "best": "no dispatch policy"} {
		err := g.Install(context.Background(), dispatched(d, 2, policy))
		require.ErrorContains(t, err, why)
		require.ErrorContains(t, err, `pipeline "p", module "m"`)
		require.ErrorContains(t, g.Prepare(context.Background(), dispatched(d, 2, policy)), why)
	}
	_, err := ask(context.Background(), g)
	require.Nil(t, err, "what served goes on")
}
