package exact

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// A small network on a core of its own, as measured: batches of one keep any objective,
// and leave little for what was not planned for.
func TestOfPlansThatCostTheSameTheDevicesIdleMost(t *testing.T) {
	micros := func(batch, us int) pipelines.Point {
		return pipelines.Point{Batch: batch, Duration: time.Duration(us) * time.Microsecond}
	}
	small := []pipelines.Point{micros(1, 47), micros(8, 112), micros(64, 870)}
	for _, c := range []struct {
		name  string
		rate  float64
		slo   time.Duration
		batch int
	}{
		{"64 come in 43 ms", 1500, 50 * time.Millisecond, 64},
		{"they do not come in time", 1500, 10 * time.Millisecond, 8},
		{"one comes after the other", 10, 50 * time.Millisecond, 1},
		{"batches of 64 and of 8 are long", 1500, 800 * time.Microsecond, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, model := range []string{plan.CostWhole, plan.CostShared} {
				p := solve(plantest.OneKind(1, c.rate, c.slo, small...), plan.Options{CostModel: model})
				require.Equal(t, plan.Optimal, p.Status, p.Reason)
				require.Len(t, p.Modules[0].Groups, 1)
				assert.Equal(t, c.batch, p.Modules[0].Groups[0].Batch, p.Describe())
				assert.InDelta(t, 1, p.Cost, 1e-9)
				assert.Equal(t, plan.EveryRequest, p.Proof)
				assert.LessOrEqual(t, p.Latency, c.slo)
			}
		})
	}
}

// No configuration with larger and short batches keeps the objective on as many devices
// of the kind and leaves more of them idle.
func TestNoLargerShortBatchUsesDevicesLess(t *testing.T) {
	const shortBatch = 8 // of them fit into an objective; see Problem.UseLeast
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		problem.Pipeline.Modules = problem.Pipeline.Modules[:1]
		p := solve(problem, exactWhole)
		if p.Status == plan.Infeasible || len(p.Modules[0].Groups) != 1 {
			return
		}
		m, g := p.Modules[0], p.Modules[0].Groups[0]
		batches := func(batch int, d time.Duration) float64 { // a second that the stream needs
			window := (problem.Pipeline.SLO - d).Seconds()
			if problem.Pipeline.Modules[0].Fanout == 1 { // one comes after the other
				window = max(window, 1/m.Rate)
			}
			return max(m.Rate/float64(batch), 1/window)
		}
		used := batches(g.Batch, g.Duration) * g.Duration.Seconds()
		for _, c := range problem.Pipeline.Modules[0].Profile.Points {
			if c.Hardware != g.Hardware || c.Batch <= g.Batch || c.Duration > problem.Pipeline.SLO/shortBatch {
				continue
			}
			if use := batches(c.Batch, c.Duration) * c.Duration.Seconds(); use <= g.Machines {
				require.LessOrEqual(t, used*0.9, use*(1+1e-6), "%v\n%s", c, p.Describe())
			}
		}
	})
}
