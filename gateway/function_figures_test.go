package gateway

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

// figuresVariable names how long every line of the table is measured, on the clock
// of this machine and over its network.
const figuresVariable = "HARPAGON_FUNCTIONS_SERVED"

// TestServedFigures serves the example: what requests cost and how many miss their
// objective, by the plan, by the simulator and as served. On a virtual clock, serving equals
// the simulation: the table of docs/results/functions.md. With the variable it is measured on
// the clock and network of this machine instead:
//
//	HARPAGON_FUNCTIONS_SERVED=60s go test ./gateway -run ServedFigures -v -timeout 20m
func TestServedFigures(t *testing.T) {
	span, err := time.ParseDuration(cmp.Or(os.Getenv(figuresVariable), "1m"))
	require.NoError(t, err)
	var lines []string
	for _, c := range []struct {
		policy, billing string
		cold            time.Duration
	}{
		{functions.PolicyExact, "1s", 0}, {functions.PolicyExact, "1s", time.Second}, {functions.PolicyMBSOptimal, "1s", 0}, {functions.PolicyBatch, "1s", 0},
		{functions.PolicyExact, "100ms", 0}, {functions.PolicyExact, "0s", 0},
	} {
		if os.Getenv(figuresVariable) != "" {
			lines = append(lines, figuresOf(t, c.policy, c.billing, c.cold, span, true))
			continue
		}
		synctest.Test(t, func(t *testing.T) { lines = append(lines, figuresOf(t, c.policy, c.billing, c.cold, span, false)) })
	}
	t.Log("\n| policy | billing | cold start | groups | per million: planned | simulated | served | batch: planned | simulated | served | missed: simulated | served |\n" +
		"|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n" + strings.Join(lines, "\n"))
}

func figuresOf(t *testing.T, policy, billing string, cold, span time.Duration, live bool) string {
	config, diags := hcl.Load(hcl.LoadOptions{Vars: map[string]string{"billing": billing}}, "../examples/functions")
	require.Empty(t, diags)
	problem := functions.Problem{Function: config.Document.Functions[0], Provider: config.Document.Providers[0]}
	var answers http.Handler
	at := cloudAddress
	if live {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
		defer s.Close()
		at = s.URL
	}
	problem.Provider.URL = at + "/v2/models/{function}-{platform}-{size}"
	plan, err := functions.Solve(problem, functions.Options{Policy: policy})
	require.NoError(t, err)
	simulated, err := functions.Simulate(problem, plan, functions.SimulateOptions{Duration: time.Hour, Seed: 1})
	require.NoError(t, err)
	start := cold
	if start == 0 {
		start = -1
	}
	h, err := provider.New(provider.Options{Problems: []functions.Problem{problem}, ColdStart: start, Seed: 1})
	require.NoError(t, err)
	defer h.Close()
	answers = h
	o := Options{Invoker: invoker(h)}
	if live {
		o.Invoker = nil
	} else {
		o.Margin = -1 // no timer is late
	}
	g := New(o)
	defer g.Close()
	require.NoError(t, g.Install(t.Context(), placement.Deployment{Function: &functions.Deployment{
		Generation: 1, Function: problem.Function, Provider: problem.Provider, Plan: plan,
	}}))

	var wg sync.WaitGroup
	image := wire.FromFloat32(make([]float32, 3*32*32), 3, 32, 32)
	for i, a := range problem.Function.Applications {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			begin := time.Now()
			for next := time.Duration(0); next < span; next += time.Duration(rng.ExpFloat64() / a.Rate * float64(time.Second)) {
				time.Sleep(time.Until(begin.Add(next)))
				wg.Go(func() {
					// What became of it is counted by the gateway.
					_, _ = g.Infer(context.Background(), &wire.InferRequest{Pipeline: "vgg19/" + a.Name, Inputs: []wire.NamedTensor{{Name: "image", Tensor: image}}})
				})
			}
		})
	}
	wg.Wait()
	m, bill := *g.Measures("vgg19").Function, h.Bill()
	require.Equal(t, bill.Invocations, m.Total().Calls)
	if !live && cold == 0 {
		require.InEpsilon(t, simulated.CostPerRequest, bill.CostPerRequest, 0.04, "%s, %s", policy, billing)
		require.InEpsilon(t, simulated.MeanBatch, m.Total().MeanBatch(), 0.04)
		require.InDelta(t, simulated.Violations(), m.Violations(), 0.02)
	}
	planned := 0.0
	var groups []string
	for _, g := range plan.Groups {
		planned += g.Rate / plan.Rate / float64(g.Batch)
		groups = append(groups, fmt.Sprintf("%s, batch %d", g.Describe(), g.Batch))
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %.3g | %.3g | %.3g | %.1f | %.1f | %.1f | %.2f %% | %.2f %% |", policy, billing, cold, strings.Join(groups, "; "),
		1e6*plan.CostPerRequest, 1e6*simulated.CostPerRequest, 1e6*bill.CostPerRequest,
		1/planned, simulated.MeanBatch, m.Total().MeanBatch(), 100*simulated.Violations(), 100*m.Violations())
}
