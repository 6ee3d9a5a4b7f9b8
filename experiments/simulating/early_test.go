package simulating

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments/planning"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// TestEarlyStartsCostNothing compares early starts with windows that are kept, on
// plans of whole and shared devices: no less is attained, and sooner. The table
// in docs/simulating.md is that of HARPAGON_EARLY=40 workloads.
func TestEarlyStartsCostNothing(t *testing.T) {
	n := 4
	if text := os.Getenv("HARPAGON_EARLY"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	var loads []simulate.Load
	var plans []plan.Plan
	all, err := planning.Workloads(planning.DefaultSeed, n)
	require.NoError(t, err)
	for _, w := range all {
		p := withoutFanout(w.Problem)
		for _, model := range []string{plan.CostWhole, plan.CostShared} {
			loads = append(loads, simulate.Load{Pipeline: p.Pipeline})
			plans = append(plans, policies.Solve(p, plan.Options{CostModel: model}))
		}
	}
	for _, kind := range []string{"even", "poisson"} {
		for _, part := range []float64{0.5, 0.8, 1} {
			kept, early := average(t, loads, plans, kind, part, false), average(t, loads, plans, kind, part, true)
			t.Logf("%s at %.1f of the planned rate: windows kept %.4f; early starts %.4f", kind, part, kept, early)
			if kind == "even" {
				assert.InDelta(t, 1, kept.attained, 1e-12)
				assert.InDelta(t, 1, early.attained, 1e-12)
			}
			assert.Less(t, early.p50, kept.p50)
			assert.Less(t, early.p99, kept.p99)
		}
	}
}

// means are averages over plans; latencies are shares of the SLO.
type means struct{ attained, p50, p99 float64 }

func average(t *testing.T, loads []simulate.Load, plans []plan.Plan, kind string, part float64, eager bool) (m means) {
	for i, l := range loads {
		l.Arrivals, l.Rate = simulate.Arrivals{Kind: kind}, part*l.Pipeline.Rate
		r, err := simulate.OnPlans([]simulate.Load{l}, plans[i:i+1], simulate.Options{Eager: eager, Duration: time.Duration(2000 / l.Pipeline.Rate * float64(time.Second))})
		require.NoError(t, err)
		one := r.Pipelines[0]
		m.attained += float64(one.Completed) / float64(one.Requests) / float64(len(loads))
		m.p50 += float64(one.Latency.P50) / float64(l.Pipeline.SLO) / float64(len(loads))
		m.p99 += float64(one.Latency.P99) / float64(l.Pipeline.SLO) / float64(len(loads))
	}
	return m
}
