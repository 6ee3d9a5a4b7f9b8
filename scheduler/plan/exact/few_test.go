package exact

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// Requests that come seldom take the devices for as long as they run, whatever their
// objective leaves: 75 ms each. With several at once more of them run side by side.
func TestFewRequestsTakeWhatTheyRun(t *testing.T) {
	profile := plantest.Profile(plantest.Point(1, 75), plantest.Point(4, 200))
	for _, c := range []struct {
		rate                float64
		slo                 int // ms
		fanout              float64
		proportional, whole float64
	}{
		{0.01, 100, 1, 0.00075, 1},
		{1, 100, 1, 0.075, 1},
		{1, 76, 1, 0.075, 1},
		{12, 145, 1, 0.9, 1},
		{13, 100, 1, 0.975, 1},
		{14, 100, 1, 1.05, 2}, // the next comes after 71 ms
		{20, 145, 1, 1.5, 2},
		{1, 1500, 1, 0.075, 1},  // a batch of two would have to wait a second
		{0.5, 100, 2, 0.075, 2}, // two at once
	} {
		for _, model := range plan.CostModels() {
			t.Run(fmt.Sprint(c.rate, "/", c.slo, "ms/", c.fanout, "/", model), func(t *testing.T) {
				problem := plantest.OneModule(profile, c.rate, time.Duration(c.slo)*time.Millisecond)
				problem.Pipeline.Modules[0].Fanout = c.fanout
				p := solve(problem, plan.Options{CostModel: model})
				require.Equal(t, plan.Optimal, p.Status, p.Describe())
				require.True(t, p.Sound, p.Describe())
				want := c.whole
				if model == plan.CostProportional {
					want = c.proportional
				}
				assert.InDelta(t, want, p.Cost, 1e-6, p.Describe())
			})
		}
	}
}

// Steps of a row that each take one request at a time need no devices of their own
// where their objective lets them wait for each other.
func TestFewRequestsShare(t *testing.T) {
	problem := plantest.OneModule(plantest.Profile(plantest.Point(1, 20)), 2, 90*time.Millisecond)
	second := problem.Pipeline.Modules[0]
	second.Name, second.Inputs = "second", []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: problem.Pipeline.Modules[0].Name, Port: "y"}}}
	problem.Pipeline.Modules = append(problem.Pipeline.Modules, second)
	p := solve(problem, plan.Options{CostModel: plan.CostShared})
	require.Equal(t, plan.Optimal, p.Status, p.Describe())
	assert.Equal(t, plan.EveryRequest, p.Proof)
	assert.InDelta(t, 1, p.Cost, 1e-9, p.Describe())
}
