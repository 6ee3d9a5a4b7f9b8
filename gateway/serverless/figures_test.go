package serverless

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/provider"
	"github.com/harpagon/harpagon/pipelines/language"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
)

// figuresVariable names how long every line of the table is measured.
const figuresVariable = "HARPAGON_FUNCTIONS_SERVED"

// TestServedFigures serves the example and writes the table of
// docs/functions.md: what requests cost and how many miss their objective, by
// the plan, by the simulator and as served. It takes a second a case unless the
// variable says longer:
//
//	HARPAGON_FUNCTIONS_SERVED=60s go test ./gateway/serverless -run Figures -v -timeout 20m
func TestServedFigures(t *testing.T) {
	span := time.Second
	if text := os.Getenv(figuresVariable); text != "" {
		var err error
		span, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	var lines []string
	for _, c := range []struct {
		policy, billing string
		cold            time.Duration
	}{
		{functions.PolicyExact, "1s", 0}, {functions.PolicyExact, "1s", time.Second}, {functions.PolicyMBS, "1s", 0}, {functions.PolicyBatch, "1s", 0},
		{functions.PolicyExact, "100ms", 0}, {functions.PolicyExact, "0s", 0},
	} {
		if span < 5*time.Second && len(lines) > 0 {
			break // one case shows that the figures are made
		}
		lines = append(lines, figuresOf(t, c.policy, c.billing, c.cold, span))
	}
	t.Log("\n| policy | billing | cold start | groups | per million: planned | simulated | served | batch: planned | simulated | served | missed: simulated | served |\n" +
		"|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n" + strings.Join(lines, "\n"))
}

func figuresOf(t *testing.T, policy, billing string, cold, span time.Duration) string {
	var l late
	at := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.Handler.ServeHTTP(w, r) }))
	config, diags := language.Load(language.LoadOptions{Vars: map[string]string{"billing": billing}}, "../../examples/functions")
	require.Empty(t, diags)
	problem := functions.Problem{Function: config.Document.Functions[0], Provider: config.Document.Providers[0]}
	problem.Provider.URL = at + "/v2/models/{function}-{platform}-{size}"
	plan, err := functions.Solve(problem, functions.Options{Policy: policy})
	require.NoError(t, err)
	simulated, err := functions.Replay(problem, plan, functions.ReplayOptions{Duration: time.Hour, Seed: 1})
	require.NoError(t, err)
	start := cold
	if start == 0 {
		start = -1
	}
	h, err := provider.New(provider.Options{Problems: []functions.Problem{problem}, ColdStart: start, Seed: 1})
	require.NoError(t, err)
	defer h.Close()
	l.Handler = h
	s := serve(t, Options{}, functions.Deployment{Generation: 1, Function: problem.Function, Provider: problem.Provider, Plan: plan})

	var wg sync.WaitGroup
	image := wire.FromFloat32(make([]float32, 3*32*32), 3, 32, 32)
	for i, a := range problem.Function.Applications {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			begin := time.Now()
			for next := time.Duration(0); next < span; next += time.Duration(rng.ExpFloat64() / a.Rate * float64(time.Second)) {
				time.Sleep(time.Until(begin.Add(next)))
				wg.Go(func() {
					// What became of it is counted by the server.
					_, _ = s.Infer(context.Background(), &wire.InferRequest{Pipeline: "vgg19/" + a.Name, Inputs: []wire.NamedTensor{{Name: "image", Tensor: image}}})
				})
			}
		})
	}
	wg.Wait()
	m, bill := s.Measures("vgg19"), h.Bill()
	t.Log("\n" + plan.Describe() + "\n" + m.Describe(plan))
	require.Equal(t, bill.Invocations, m.Total().Calls)
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
