package experiments

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Streams whose phases are chosen need fewer devices where it is their bursts that decide: where
// even frames of the same rate would need fewer.
func TestChosenPhasesNeedLess(t *testing.T) {
	t.Parallel()
	any, chosen, decided, cases := 0.0, 0.0, 0, 0
	for seed := range uint64(24) {
		d := drawing{Rand: rand.New(rand.NewPCG(seed, 3)), streams: true}
		problems, o := d.problems()
		if o.CostModel == plan.CostProportional {
			continue
		}
		problem := problems[0]
		problem.Pipeline.Stream.Jitter = 0
		problem.Pipeline.Stream.Phases = pipelines.PhasesAny
		unlucky := policies.Solve(problem, o)
		problem.Pipeline.Stream.Phases = pipelines.PhasesChosen
		spread := policies.Solve(problem, o)
		if unlucky.Status == plan.Infeasible || spread.Status == plan.Infeasible {
			require.NotEqual(t, plan.Infeasible, spread.Status, "draw %d: chosen phases have a plan where others do", seed)
			continue
		}
		cases++
		assert.LessOrEqual(t, spread.LowerBound, unlucky.Cost*(1+1e-9), "draw %d", seed)
		if spread.Cost < unlucky.Cost*(1-1e-9) {
			decided++
			any, chosen = any+unlucky.Cost, chosen+spread.Cost
		}
	}
	t.Logf("bursts decide in %d of %d drawn cases; there chosen phases cost %.2f of what any phases do", decided, cases, chosen/any)
	assert.LessOrEqual(t, chosen, 0.8*any)
}
