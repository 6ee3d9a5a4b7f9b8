package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// small is a pipeline of one module that uses little of a device.
func small(name string, rate float64) *pipelines.Pipeline {
	return &pipelines.Pipeline{
		Name: name, SLO: 400 * time.Millisecond, Rate: rate,
		Modules: []pipelines.Module{{Name: "m", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{
			{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: 10 * time.Millisecond},
			{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: 40 * time.Millisecond},
			{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 60 * time.Millisecond},
		}}}},
	}
}

func devices(kind string, n int) (all []placement.Device) {
	for i := range n {
		all = append(all, placement.Device{Host: "h", Name: fmt.Sprintf("%s/%d", kind, i), Hardware: kind})
	}
	return all
}

var twoKinds = []pipelines.Hardware{{Name: "gpu", Price: 1}, {Name: "cpu", Price: 0.4}}

// What exists changes nothing where it is enough, joint planning included.
func TestAFleetThatIsLargeEnoughChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var specs []scheduler.Spec
		for i := range rapid.IntRange(1, 3).Draw(t, "pipelines") {
			p := small(fmt.Sprint("p", i), rapid.Float64Range(0.5, 120).Draw(t, "rate"))
			p.Plan.CostModel = rapid.SampledFrom(pipelines.CostModels()).Draw(t, "cost model")
			specs = append(specs, scheduler.Spec{Pipeline: p, Hardware: twoKinds})
		}
		free := scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{})
		fleet := scheduler.Fleet{Devices: append(devices("gpu", 32), devices("cpu", 32)...)}
		assert.Equal(t, free, scheduler.Solve(specs, fleet, scheduler.Limits{}))
	})
}

func TestSharedDevicesCountOnce(t *testing.T) {
	var specs []scheduler.Spec
	for i := range 3 {
		specs = append(specs, scheduler.Spec{Pipeline: small(fmt.Sprint("p", i), 2), Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1, Count: 1}}})
	}
	total := 0.0
	for _, p := range scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{}) {
		require.NotEqual(t, plan.Infeasible, p.Pipeline.Status, p.Reason())
		total += p.CostPerHour()
	}
	assert.InDelta(t, 1, total, 1e-9, "three pipelines pay for the one device that there is")
}

func TestAFleetLimitsPlans(t *testing.T) {
	spec := scheduler.Spec{Pipeline: small("p", 100), Hardware: twoKinds}
	solve := func(fleet scheduler.Fleet) plan.Plan {
		return *scheduler.Solve([]scheduler.Spec{spec}, fleet, scheduler.Limits{})[0].Pipeline
	}
	free := solve(scheduler.Fleet{})
	for _, m := range free.Modules {
		for _, g := range m.Groups {
			assert.Equal(t, "gpu", g.Hardware)
		}
	}
	limited := solve(scheduler.Fleet{Devices: devices("cpu", 8)})
	require.NotEqual(t, plan.Infeasible, limited.Status, limited.Reason)
	assert.Greater(t, limited.Cost, free.Cost)
	assert.Contains(t, solve(scheduler.Fleet{Devices: devices("cpu", 2)}).Reason, "cpu")
	none := solve(scheduler.Fleet{Devices: devices("tpu", 2)})
	assert.Equal(t, plan.Infeasible, none.Status)
	assert.Contains(t, none.Reason, "no host has a device of the hardware that is declared; start a worker")
}

// A profile of a machine that was busy costs a plan its margin, and not the plan.
func TestSpreadsThatNoPlanBears(t *testing.T) {
	spec := scheduler.Spec{Pipeline: small("p", 100), Hardware: twoKinds}
	for i := range spec.Pipeline.Modules {
		points := spec.Pipeline.Modules[i].Profile.Points
		for k := range points {
			points[k].Spread = 2 * points[k].Duration
		}
	}
	solve := func(cpus int) plan.Plan {
		return *scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{Devices: devices("cpu", cpus)}, scheduler.Limits{})[0].Pipeline
	}
	enough := solve(64)
	require.NotEqual(t, plan.Infeasible, enough.Status, enough.Reason)
	assert.Equal(t, pipelines.MeasuredQuantile, enough.DurationQuantile)
	few := solve(8)
	require.NotEqual(t, plan.Infeasible, few.Status, few.Reason)
	assert.Zero(t, few.DurationQuantile)
	assert.True(t, few.SpreadLeftOut)
	assert.Contains(t, few.Describe(), "counting what 95 % of measured runs took at most, no plan was found")
	none := solve(2)
	assert.Equal(t, plan.Infeasible, none.Status)
	assert.False(t, none.SpreadLeftOut)
}

// What is planned beside others is planned the same with only those that matter,
// in any order.
func TestBesideIsAllThatMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var specs []scheduler.Spec
		for i := range rapid.IntRange(1, 4).Draw(t, "pipelines") {
			p := small(fmt.Sprint("p", i), rapid.Float64Range(0.5, 40).Draw(t, "rate"))
			p.Plan.CostModel = rapid.SampledFrom([]string{"", "shared", "shared", "whole"}).Draw(t, "cost model")
			p.Plan.Policy = rapid.SampledFrom([]string{"", "exact", "exact", "nexus"}).Draw(t, "policy")
			specs = append(specs, scheduler.Spec{Pipeline: p, Hardware: twoKinds})
		}
		all := scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{})
		for i := range specs {
			some := append([]scheduler.Spec{specs[i]}, scheduler.Beside(specs, i)...)
			assert.Equal(t, all[i], scheduler.Solve(some, scheduler.Fleet{}, scheduler.Limits{})[0])
		}
	})
}

func TestPlansThatMustNotServe(t *testing.T) {
	spec := scheduler.Spec{Pipeline: small("p", 30), Hardware: twoKinds}
	solve := func() scheduler.Plan {
		return scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{}, scheduler.Limits{})[0]
	}
	p := solve()
	assert.Empty(t, p.Refusal(spec))
	p.Pipeline.Sound, p.Pipeline.Policy = false, "nexus"
	assert.Contains(t, p.Refusal(spec), "the plan of policy nexus is not sound")
	assert.Contains(t, p.Refusal(spec), "allow_unsound = true")
	spec.Pipeline.Plan.AllowUnsound = true
	assert.Empty(t, p.Refusal(spec))
	spec.Pipeline.SLO = time.Millisecond
	assert.Contains(t, solve().Refusal(spec), "SLO")
}
