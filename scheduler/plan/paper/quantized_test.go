package paper

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// TestQuantizedAgainstAllBudgets compares the search with its exhaustive twin.
func TestQuantizedAgainstAllBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Draw(t)
		problem.Pipeline.Modules = problem.Pipeline.Modules[:min(4, len(problem.Pipeline.Modules))]
		step := problem.Pipeline.SLO/time.Duration(rapid.IntRange(4, 8).Draw(t, "steps")) + 1
		p := searching(t, &problem, plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Without: []string{"reassign"}})
		found, ok := p.quantized(step)
		best := allBudgets(p, step, make([]time.Duration, len(p.Modules)), 0)
		require.Equal(t, !math.IsInf(best, 1), ok)
		if ok {
			require.LessOrEqual(t, p.DAG.Longest(found), problem.Pipeline.SLO)
			sets, err := p.schedule(found)
			require.NoError(t, err)
			require.InDelta(t, best, weight(sets), 1e-6*(1+best))
		}
	})
}

func allBudgets(p *search, step time.Duration, budgets []time.Duration, i int) float64 {
	if i == len(budgets) {
		if p.DAG.Longest(budgets) > p.Pipeline.SLO {
			return math.Inf(1)
		}
		sum := 0.0
		for k := range p.Modules {
			set, ok := p.solveFilled(k, budgets[k])
			if !ok {
				return math.Inf(1)
			}
			sum += set.Weight
		}
		return sum
	}
	best := math.Inf(1)
	for budgets[i] = step; budgets[i] <= p.Pipeline.SLO; budgets[i] += step {
		best = math.Min(best, allBudgets(p, step, budgets, i+1))
	}
	return best
}
