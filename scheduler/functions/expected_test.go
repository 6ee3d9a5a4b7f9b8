package functions

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExpectedCost: what the plan expects of random arrivals is what the simulator
// bills for them, far nearer than the cost of full batches.
func TestExpectedCost(t *testing.T) {
	var off, full []float64
	for i := range 60 {
		p := drawn(11, i, 8)
		plan, err := Solve(p, Options{})
		require.NoError(t, err)
		got, err := Simulate(p, plan, SimulateOptions{Duration: time.Duration(20000 / plan.Rate * float64(time.Second)), Seed: 3})
		require.NoError(t, err)
		off = append(off, math.Abs(plan.ExpectedCost/got.CostPerRequest-1))
		full = append(full, math.Abs(plan.CostPerRequest/got.CostPerRequest-1))
	}
	slices.Sort(off)
	slices.Sort(full)
	t.Logf("off by %.2f %% in the median, %.2f %% for nine of ten, %.2f %% at most; full batches by %.2f, %.2f, %.2f %%",
		100*off[30], 100*off[54], 100*off[59], 100*full[30], 100*full[54], 100*full[59])
	assert.Less(t, off[54], 0.02)
	assert.Less(t, off[59], 0.1)
}
