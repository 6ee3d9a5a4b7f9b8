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

// crops is a detector of 5 ms whose pictures are cut into so many crops each, 10 ms for one,
// 18 for two and 34 for four.
func crops(items float64, most int) plan.Problem {
	point := func(batch int, ms time.Duration) pipelines.Point {
		return pipelines.Point{Hardware: "gpu", Batch: batch, Duration: ms * time.Millisecond}
	}
	classify := pipelines.Module{
		Name: "classify", Scatter: true, Fanout: items, Most: most,
		Profile: pipelines.Profile{Points: []pipelines.Point{point(1, 10), point(2, 18), point(4, 34)}},
		Inputs:  []pipelines.Binding{{Name: "crop", From: pipelines.Ref{Module: "detect", Port: "objects"}}},
	}
	detect := pipelines.Module{Name: "detect", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{point(1, 5)}}}
	return plan.Problem{
		Pipeline: pipelines.Pipeline{Name: "crops", SLO: 100 * time.Millisecond, Rate: 5, Arrivals: pipelines.ArrivalsEven, Modules: []pipelines.Module{detect, classify}},
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
	}
}

// Sixteen crops come at one instant: one device needs 136 ms for them.
func TestCropsThatComeAtOnce(t *testing.T) {
	t.Parallel()
	for model, cost := range map[string]float64{plan.CostShared: 2, plan.CostWhole: 3, plan.CostProportional: 5 * (0.005 + 4*0.034)} {
		for _, problem := range []plan.Problem{crops(16, 0), crops(5, 16)} {
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
	p := policies.Solve(crops(16, 0), plan.Options{Policy: plan.PolicyHarpagon})
	assert.Equal(t, plan.NoProof, p.Proof, "the papers' policies read mean rates")
	p = policies.Solve(crops(5.5, 0), plan.Options{})
	assert.Equal(t, plan.NoProof, p.Proof, "nobody knows how many there are at the most")
}
