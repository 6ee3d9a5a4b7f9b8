package experiments

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan"
)

// TestGoodputHoldsBeyondCapacity: what serves by default keeps 0.97 of its peak on average,
// and 0.9 on each workload (docs/results/overload.md has the exact figures), where it kept
// a third without admission control. Among the workloads are those that lost most where
// requests were taken in as soon as there was room: a batch takes a third of the objective
// of one, and batches of one seven eighths of that of another.
func TestGoodputHoldsBeyondCapacity(t *testing.T) {
	t.Parallel()
	all, err := Workloads(DefaultSeed, workloads)
	require.NoError(t, err)
	all = append(all[2:4:4], all[14], all[15], all[17])
	for _, model := range []string{plan.CostShared, plan.CostWhole} {
		c, err := Measure(OverloadSetting{CostModel: model, Arrivals: "poisson", Dispatch: "tc", Admission: true, Noise: DefaultNoise}, all, nil)
		require.NoError(t, err)
		require.Equal(t, len(all), c.Workloads)
		for _, p := range c.Points {
			t.Logf("%s, x%g: goodput %.3f, %.2f of the peak, at least %.2f", c.CostModel, p.Load, p.Goodput, p.OfPeak, p.Least)
			if p.Load > 1 {
				assert.GreaterOrEqual(t, p.OfPeak, 0.97)
				assert.GreaterOrEqual(t, p.Least, 0.9)
			}
		}
	}
}
