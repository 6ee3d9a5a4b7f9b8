package scheduler_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// chain is a pipeline of two modules that take 20 ms for one request and 5 for each more.
func chain(slo time.Duration) scheduler.Spec {
	var points []pipelines.Point
	for b := 1; b <= 8; b++ {
		points = append(points, pipelines.Point{Hardware: "cpu", Batch: b, Concurrency: 1, Duration: time.Duration(15+5*b) * time.Millisecond})
	}
	p := pipelines.Pipeline{
		Name: "p", SLO: slo, Rate: 60,
		Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}},
		Modules: []pipelines.Module{
			{Name: "a", Profile: pipelines.Profile{Points: points}, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}},
			{Name: "b", Profile: pipelines.Profile{Points: points}, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "a", Port: "y"}}}},
		},
		Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "b", Port: "y"}}},
	}
	return scheduler.Spec{Pipeline: &p, Hardware: []pipelines.Hardware{{Name: "cpu", Price: 1}}}
}

func TestPlansCountTheWay(t *testing.T) {
	solve := func(slo, way time.Duration) plan.Plan {
		return *scheduler.Solve([]scheduler.Spec{chain(slo)}, scheduler.Fleet{Transfer: way}, scheduler.Limits{})[0].Pipeline
	}
	near := solve(200*time.Millisecond, 0)
	require.NotEqual(t, plan.Infeasible, near.Status, near.Reason)
	assert.NotContains(t, near.Describe(), "way")
	last := near.Cost
	for _, way := range []time.Duration{3 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		far := solve(200*time.Millisecond, way)
		require.NotEqual(t, plan.Infeasible, far.Status, far.Reason)
		assert.Equal(t, way, far.Transfer)
		assert.Contains(t, far.Describe(), "for the way to executors and back")
		assert.GreaterOrEqual(t, far.Cost, last, "a longer way is not cheaper")
		last = far.Cost
		sum := time.Duration(0)
		for _, m := range far.Modules {
			sum += m.Budget
			for _, g := range m.Groups {
				least := time.Duration(15+5*g.Batch)*time.Millisecond + way
				assert.GreaterOrEqual(t, g.Duration, least)
				assert.LessOrEqual(t, g.Window+least, m.Budget)
			}
		}
		assert.LessOrEqual(t, sum, 200*time.Millisecond)
		raw, err := json.Marshal(far)
		require.NoError(t, err)
		var back plan.Plan
		require.NoError(t, json.Unmarshal(raw, &back))
		assert.Equal(t, way, back.Transfer)
	}
	never := solve(60*time.Millisecond, 20*time.Millisecond)
	assert.Equal(t, plan.Infeasible, never.Status)
	assert.Contains(t, never.Reason, "20 ms of that at every module for the way to executors and back")
}
