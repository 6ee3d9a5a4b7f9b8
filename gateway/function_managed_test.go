package gateway

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// TestManagedFunctions moves traffic from plan to plan under load, each time in the
// order in which the workflow does: create, prepare, install, let old calls end, delete.
// Functions come, change and go; no request is lost, and the bill is what the plans
// expect, on a clock of its own.
func TestManagedFunctions(t *testing.T) { synctest.Test(t, managedFunctions) }

func managedFunctions(t *testing.T) {
	rates := func(a, b float64) func(*pipelines.Function, *pipelines.Provider) {
		return func(f *pipelines.Function, p *pipelines.Provider) {
			p.Manage = true
			f.Applications[0].Rate, f.Applications[1].Rate = a, b
		}
	}
	loads := [][2]float64{{2, 3}, {40, 60}, {120, 160}, {2, 3}}
	h := host(t, provider.Options{ColdStart: 800 * time.Millisecond, Seed: 1}, rates(1, 1))
	g := recorded(t, Options{Invoker: invoker(h), Margin: -1})
	defer g.Close()
	ctx := context.Background()
	var before []functions.Managed
	var done functions.Managing
	sent, expected := int64(0), 0.0
	const span = time.Minute
	for generation, load := range loads {
		d := deploy(t, generation+1, rates(load[0], load[1]))
		want := d.Function.Managed()
		ensure := func(what []functions.Managed) {
			c, err := serverless.Ensure(ctx, h, "net", what)
			require.NoError(t, err)
			again, err := serverless.Ensure(ctx, h, "net", what)
			require.NoError(t, err)
			require.Equal(t, "nothing to do", again.Describe())
			t.Logf("generation %d: %s", generation+1, c.Describe())
			done.Create, done.Resize, done.Delete = append(done.Create, c.Create...), append(done.Resize, c.Resize...), append(done.Delete, c.Delete...)
		}
		var wg sync.WaitGroup
		if generation > 0 { // the load that the plan is made for comes while the one before serves
			wg.Go(func() { askBoth(t, g, loads[generation-1], 3*time.Second, uint64(generation)) })
			time.Sleep(time.Second)
		}
		ensure(functions.Both(before, want))
		require.NoError(t, g.Prepare(ctx, d))
		require.NoError(t, g.Install(ctx, d))
		require.NoError(t, g.Release(ctx, "net", nil))
		ensure(want)
		wg.Wait()
		started := h.Bill()
		askBoth(t, g, load, span, 100+uint64(generation))
		bill := h.Bill()
		money, n := bill.Cost-started.Cost, bill.Requests-started.Requests
		t.Logf("generation %d: planned %.4g, billed %.4g per million, %d cold starts that a call met", generation+1,
			1e6*d.Function.Plan.ExpectedCost, 1e6*money/float64(n), bill.ColdStarts-started.ColdStarts)
		sent += n
		expected += d.Function.Plan.ExpectedCost * float64(n)
		assert.InEpsilon(t, d.Function.Plan.ExpectedCost, money/float64(n), 0.05, "generation %d", generation+1)
		before = want
	}
	assert.Positive(t, sent)
	assert.NotEmpty(t, done.Create)
	assert.NotEmpty(t, done.Resize)
	assert.NotEmpty(t, done.Delete)
	for name, n := range g.Totals("net") {
		if name != Completed && name != Late {
			assert.Zero(t, n, "no request is lost: %v", name)
		}
	}
	_, err := serverless.Ensure(ctx, h, "net", nil)
	require.NoError(t, err)
	has, err := h.Describe(ctx, "net")
	require.NoError(t, err)
	assert.Empty(t, has)
}

// askBoth sends both applications' requests at the rates, and waits for the answers.
func askBoth(t *testing.T, g *Gateway, rates [2]float64, span time.Duration, seed uint64) {
	var wg sync.WaitGroup
	for i, name := range []string{"hasty", "calm"} {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for begin := time.Now(); time.Since(begin) < span; {
				time.Sleep(time.Duration(rng.ExpFloat64() / rates[i] * float64(time.Second)))
				wg.Go(func() {
					_, err := g.Infer(context.Background(), askOf(name, 1, 2))
					assert.NoError(t, err)
				})
			}
		})
	}
	wg.Wait()
}
