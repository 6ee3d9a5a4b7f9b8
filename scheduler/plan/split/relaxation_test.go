package split

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// anything takes options as they are; nothing else of it is called.
type anything struct{ plan.Policy }

func (anything) Complete(o plan.Options) (plan.Options, error) { return o, nil }

// Any flow gives a bound, not only the best one.
func TestEveryFlowBoundsEverySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		ready, err := plan.Prepare(&problem, plan.Options{CostModel: plan.CostProportional}, anything{})
		require.NoError(t, err)
		best := NewProportional(ready)
		best.Run()
		if best.Found == nil {
			return
		}
		costs := proportional(ready, best.Scale)
		r := newRelaxation(ready.DAG, Costs(costs), problem.Pipeline.SLO.Seconds())
		r.low, r.high = make([]float64, len(costs)), make([]float64, len(costs))
		for i, f := range costs {
			r.low[i], r.high[i] = f.Fastest(), r.slo
		}
		bound := r.solve(rapid.Float64Range(1e-3, 1e3).Draw(t, "reference"), math.Inf(1))
		require.LessOrEqual(t, bound, best.Best*(1+1e-9)+1e-12)
	})
}

// Prices of less precision bound every split, too, and nearly as well.
func TestRoughlyBoundsEverySplit(t *testing.T) {
	near, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		ready, err := plan.Prepare(&problem, plan.Options{CostModel: plan.CostProportional}, anything{})
		require.NoError(t, err)
		costs := Costs(proportional(ready, 1))
		boxes := rapid.IntRange(1, 40).Draw(t, "boxes")
		bound, split := Least(ready, costs, boxes)
		rough, _ := LeastRough(ready, costs, boxes)
		if split == nil {
			return
		}
		cost := 0.0
		for i := range split {
			one, _ := costs[i].At(split[i].Seconds())
			cost += one
		}
		require.LessOrEqual(t, rough, cost*(1+1e-9))
		if all++; rough >= bound*(1-1e-3) {
			near++
		}
	})
	assert.GreaterOrEqual(t, near, all*9/10)
}
