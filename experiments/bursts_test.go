package experiments

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Sixteen crops come at one instant: one device needs 136 ms for them.
func TestCropsThatComeAtOnce(t *testing.T) {
	t.Parallel()
	const tenth = 100 * time.Millisecond
	for model, cost := range map[string]float64{plan.CostShared: 2, plan.CostWhole: 3, plan.CostProportional: 5 * (0.005 + 2*0.064)} {
		for _, problem := range []plan.Problem{crops(16, 0, 0, tenth), crops(0, 16, 5, tenth)} {
			p := policies.Solve(problem, plan.Options{CostModel: model})
			require.Equal(t, plan.Optimal, p.Status, p.Describe())
			assert.InDelta(t, cost, p.Cost, 1e-9, p.Describe())
			assert.Equal(t, plan.EveryRequest, p.Proof)
			assert.Equal(t, &plan.Covers{Arrivals: pipelines.ArrivalsEven, Burst: 16}, p.Covers)
			for _, eager := range []bool{false, true} {
				require.NoError(t, keepsPromise([]pipelines.Pipeline{problem.Pipeline}, []plan.Plan{p}, promisePlay{Duration: time.Minute, Eager: eager, Admission: eager}))
			}
		}
	}
	p := policies.Solve(crops(16, 0, 0, tenth), plan.Options{Policy: plan.PolicyHarpagon})
	assert.Equal(t, plan.NoProof, p.Proof, "the papers' policies read mean rates")
	p = policies.Solve(crops(0, 0, 5.5, tenth), plan.Options{})
	assert.Equal(t, plan.NoProof, p.Proof, "nobody knows how many there are at the most")
}
