package exact

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// withStep is a chain of models with a step of the duration behind the first.
func withStep(rate float64, d time.Duration) plan.Problem {
	p := plantest.Chain("p", 2, rate)
	step := pipelines.Module{
		Name: "step", Function: "crop", Fanout: 1, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "a", Port: "y"}}},
		Profile:     pipelines.Profile{Points: []pipelines.Point{{Hardware: p.Hardware[0].Name, Batch: 1, Concurrency: 1, Duration: d}, {Hardware: p.Hardware[0].Name, Batch: 8, Concurrency: 1, Duration: 2 * d}}},
		ProfileFile: "step.csv",
	}
	p.Pipeline.Modules[1].Inputs[0].From.Module = "step"
	p.Pipeline.Modules = []pipelines.Module{p.Pipeline.Modules[0], step, p.Pipeline.Modules[1]}
	return p
}

// A step of microseconds costs nothing, where devices are bought whole.
func TestStepsOfMicrosecondsAreColocated(t *testing.T) {
	for _, o := range []plan.Options{exactShared, exactWhole} {
		problem := withStep(20, 10*time.Microsecond)
		p := solve(problem, o)
		require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
		require.True(t, p.Sound)
		step := plantest.Module(&p, "step")
		assert.Zero(t, step.Cost)
		assert.Equal(t, 20.0, step.Rate)
		require.Len(t, step.Groups, 1)
		g := step.Groups[0]
		assert.True(t, g.Rides)
		assert.Equal(t, 8, g.Batch, "for bursts")
		assert.InDelta(t, 20*10e-6, g.Machines, 1e-12)
		assert.LessOrEqual(t, step.Proven, step.Budget)
		assert.InDelta(t, solve(plantest.Chain("p", 2, 20), o).Cost, p.Cost, 1e-9, "as without it")
		budgets := map[string]time.Duration{}
		for _, m := range p.Modules {
			budgets[m.Name] = m.Budget
		}
		_, long, err := problem.Pipeline.LongestPath(func(name string) time.Duration { return budgets[name] })
		require.NoError(t, err)
		assert.LessOrEqual(t, long, problem.Pipeline.SLO)
		assert.Equal(t, problem.Pipeline.SLO, p.SLO)
		assert.Contains(t, p.Describe(), "without waiting for a turn: step")

		shares, err := splitLatency(problem, o)
		require.NoError(t, err)
		two, err := scheduleModules(problem, o, shares)
		require.NoError(t, err)
		assert.InDelta(t, p.Cost, two.Cost, 1e-9)
		encoded, err := json.Marshal(p)
		require.NoError(t, err)
		var back plan.Plan
		require.NoError(t, json.Unmarshal(encoded, &back))
		assert.True(t, plantest.Module(&back, "step").Groups[0].Rides)
	}
}

func TestWhatIsNotColocated(t *testing.T) {
	colocated := func(p plan.Problem, o plan.Options) bool {
		out := solve(p, o)
		require.NotEqual(t, plan.Infeasible, out.Status, out.Reason)
		return colocatedModule(&out) != ""
	}
	assert.False(t, colocated(withStep(20, 10*time.Microsecond), plan.Options{CostModel: plan.CostProportional}))
	assert.False(t, colocated(withStep(20, 10*time.Microsecond), plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostShared}))
	assert.False(t, colocated(withStep(20, 2*time.Millisecond), exactShared), "4 % of a device")

	model := withStep(20, 10*time.Microsecond)
	model.Pipeline.Modules[1].Function = ""
	assert.False(t, colocated(model, exactShared))

	elsewhere := withStep(20, 10*time.Microsecond)
	elsewhere.Hardware = append(elsewhere.Hardware, pipelines.Hardware{Name: "other", Price: 0.1})
	for i := range elsewhere.Pipeline.Modules[1].Profile.Points {
		elsewhere.Pipeline.Modules[1].Profile.Points[i].Hardware = "other"
	}
	assert.False(t, colocated(elsewhere, exactShared), "no other module has such a device")

	alone := withStep(20, 10*time.Microsecond)
	alone.Pipeline.Modules = alone.Pipeline.Modules[1:2]
	alone.Pipeline.Modules[0].Inputs = nil
	out := solve(alone, exactShared)
	assert.Empty(t, colocatedModule(&out))
	assert.InDelta(t, 1, out.Cost, 1e-9, "steps alone need a device")
}

// A co-located step counts for no device of a limited kind.
func TestColocatedStepsNeedNoDeviceThatIsCounted(t *testing.T) {
	p := withStep(20, 10*time.Microsecond)
	p.Hardware[0].Count = 2
	out := solve(p, exactWhole)
	require.NotEqual(t, plan.Infeasible, out.Status, out.Reason)
	assert.Equal(t, "step", colocatedModule(&out))
}

// A step beside an executor keeps its budget where frames of many streams come at once, too, however long it
// takes: else the plan would be proven of nothing.
func TestStepsOfStreamsAreSound(t *testing.T) {
	for _, d := range []time.Duration{time.Microsecond, 30 * time.Microsecond, 110 * time.Microsecond, 200 * time.Microsecond, 240 * time.Microsecond} {
		for _, o := range []plan.Options{exactShared, exactWhole} {
			problem := withStep(0, d)
			problem.Pipeline.Arrivals = pipelines.ArrivalsEven
			problem.Pipeline.Stream = pipelines.Stream{Rate: 2, Count: 20, Jitter: 5 * time.Millisecond}
			problem.Pipeline.Rate = problem.Pipeline.Stream.Total()
			p := solve(problem, o)
			require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
			assert.True(t, p.Sound, d)
			assert.Equal(t, plan.EveryRequest, p.Proof, d)
			step := plantest.Module(&p, "step")
			assert.True(t, step.Groups[0].Rides, d)
			assert.LessOrEqual(t, step.Proven, step.Budget, d)
		}
	}
}

// colocatedModule is the name of a module that runs beside an executor, if any.
func colocatedModule(p *plan.Plan) string {
	for _, m := range p.Modules {
		if len(m.Groups) == 1 && m.Groups[0].Rides {
			return m.Name
		}
	}
	return ""
}
