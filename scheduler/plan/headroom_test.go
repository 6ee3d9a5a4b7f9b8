package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

func keeping(p plan.Problem, share float64) plan.Problem {
	p.Pipeline.Headroom = &share
	return p
}

// Budgets add up to what headroom leaves, whatever the policy; the objective stays
// as declared.
func TestHeadroomTightensBudgetsOnly(t *testing.T) {
	for _, o := range everyPolicy() {
		p := policies.Solve(keeping(plantest.Traffic(), 0.1), o)
		if p.Status == plan.Infeasible {
			require.NotEqual(t, plan.PolicyExact, o.Policy, p.Reason)
			continue // a baseline that needs more
		}
		assert.Equal(t, plantest.Traffic().Pipeline.SLO, p.SLO)
		assert.Equal(t, p.SLO/10, p.Headroom)
		budgets := map[string]time.Duration{}
		for _, m := range p.Modules {
			budgets[m.Name] = m.Budget
		}
		pipe := plantest.Traffic().Pipeline
		_, long, err := pipe.LongestPath(func(name string) time.Duration { return budgets[name] })
		require.NoError(t, err)
		assert.LessOrEqual(t, long, p.SLO-p.Headroom, "%s %s", o.Policy, o.CostModel)
	}
}

// In two steps the same comes out as in one, and JSON keeps it.
func TestHeadroomInTwoSteps(t *testing.T) {
	problem := keeping(plantest.Traffic(), 0.25)
	budgets, err := policies.SplitLatency(problem, exactWhole)
	require.NoError(t, err)
	two, err := policies.ScheduleModules(problem, exactWhole, budgets)
	require.NoError(t, err)
	one := policies.Solve(problem, exactWhole)
	assert.Equal(t, one.Headroom, two.Headroom)
	assert.InDelta(t, one.Cost, two.Cost, 1e-9)
	encoded, err := json.Marshal(one)
	require.NoError(t, err)
	assert.Contains(t, string(encoded), `"headroom_ms":`)
	var back plan.Plan
	require.NoError(t, json.Unmarshal(encoded, &back))
	assert.Equal(t, one.Headroom, back.Headroom)
	assert.Contains(t, one.Describe(), "(25 %) free for what the machines do besides")
}

// A module alone has its whole SLO as budget, and its batches the durations that nearly all
// measured runs kept, where the profile has them.
func TestDurationsCountTheirSpread(t *testing.T) {
	p := plantest.OneKind(1, 50, 200*time.Millisecond, pipelines.Point{Batch: 4, Duration: 10 * time.Millisecond})
	p.Pipeline.Arrivals = pipelines.ArrivalsEven
	given := policies.Solve(p, exactWhole)
	assert.Equal(t, p.Pipeline.SLO, given.Modules[0].Budget)
	assert.Zero(t, given.DurationQuantile)
	assert.NotContains(t, given.Describe(), "measured runs")

	p.Pipeline.Modules[0].Profile.Points[0].Spread = 5 * time.Millisecond
	measured := policies.Solve(p, exactWhole)
	assert.Equal(t, p.Pipeline.SLO, measured.Modules[0].Budget)
	assert.Equal(t, 15*time.Millisecond, measured.Modules[0].Groups[0].Duration)
	assert.Equal(t, plan.EveryRequest, measured.Proof)
	assert.Equal(t, 0.95, measured.Covers.DurationQuantile)
	assert.Contains(t, measured.Describe(), "counts for a batch what 95 % of measured runs took at most")

	p.Pipeline.SLO = 12 * time.Millisecond
	tight := policies.Solve(p, exactWhole)
	assert.Zero(t, tight.DurationQuantile, "15 ms are more than the objective")
	assert.Equal(t, 1200*time.Microsecond, tight.Headroom, "a tenth is kept instead")

	p.Pipeline.SLO, p.Pipeline.Rate = 200*time.Millisecond, 300
	p.Hardware[0].Count = 1
	overloaded := policies.Solve(p, exactWhole)
	require.Equal(t, plan.Infeasible, overloaded.Status)
	assert.Contains(t, overloaded.Reason, `durations are what 95 % of measured runs took at most; headroom = "0%"`)
	p = p.Relaxed()
	assert.Equal(t, plan.Optimal, policies.Solve(p, exactWhole).Status)
}

func TestHeadroomIsPartOfTheReason(t *testing.T) {
	p := keeping(plantest.OneKind(1, 50, 12*time.Millisecond, pipelines.Point{Batch: 1, Duration: 10 * time.Millisecond}), 0.5)
	out := policies.Solve(p, exactWhole)
	require.Equal(t, plan.Infeasible, out.Status)
	assert.Contains(t, out.Reason, "(the SLO of 12 ms less a headroom of 6 ms)")
	_, err := policies.SplitLatency(p, exactWhole)
	require.ErrorContains(t, err, "less a headroom of 6 ms")
}

// Stop ends a search with a plan that is sound.
func TestStopEndsASearchWithAPlan(t *testing.T) {
	for _, model := range plan.CostModels() {
		p := policies.Solve(plantest.Traffic(), plan.Options{CostModel: model, Stop: func() bool { return true }})
		require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
		assert.True(t, p.Sound)
	}
}

// What others hold of a device is in JSON with the device that they hold.
func TestJSONKeepsTheMemoryOfHeldDevices(t *testing.T) {
	in := plan.HeldDevice{Device: plan.Device{Hardware: "gpu", Tasks: []plan.Task{{Module: "m", Period: time.Second}}}, Memory: 7}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	var out plan.HeldDevice
	require.NoError(t, json.Unmarshal(text, &out))
	require.Equal(t, in, out)
}
