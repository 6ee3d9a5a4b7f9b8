package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// example is the only pipeline of an example.
func example(t *testing.T, path string) scheduler.Spec {
	config, diags := hcl.Load(hcl.LoadOptions{}, path)
	require.False(t, diags.HasErrors(), diags.Error())
	specs := scheduler.Specs(&config.Document)
	require.Len(t, specs, 1)
	return specs[0]
}

func planned(t *testing.T, spec scheduler.Spec) plan.Plan {
	p := scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{}, scheduler.Limits{})[0].Pipeline
	require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
	require.True(t, p.Sound, p.Describe())
	return *p
}

// Objectives between those that have sound plans have them, too, at no higher cost: where
// fan-outs are known by their mean only, and where they have a bound.
func TestEmulatedHasPlansWithoutCliffs(t *testing.T) {
	spec := example(t, "../examples/emulated")
	withoutCliffs(t, spec)
	spec.Pipeline.Modules = slices.Clone(spec.Pipeline.Modules)
	for i := range spec.Pipeline.Modules {
		if m := &spec.Pipeline.Modules[i]; m.Scatter {
			m.Most = 2
		}
	}
	withoutCliffs(t, spec)
}

func withoutCliffs(t *testing.T, spec scheduler.Spec) {
	for _, model := range plan.CostModels() {
		last := 0.0
		for i, ms := range []int{150, 165, 180, 200, 225, 260, 300, 400} {
			t.Run(fmt.Sprint(model, "/", ms), func(t *testing.T) {
				one := *spec.Pipeline
				one.SLO, one.Plan.CostModel = time.Duration(ms)*time.Millisecond, model
				p := planned(t, scheduler.Spec{Pipeline: &one, Hardware: spec.Hardware})
				if i > 0 {
					assert.LessOrEqual(t, p.Cost, last*(1+2*plan.OptimalityGap))
				}
				last = p.Cost
			})
		}
	}
}

// Less load costs no more, and steps of microseconds buy no device.
func TestTrafficCostsNoMoreForLess(t *testing.T) {
	spec := example(t, "../examples/traffic")
	each := map[string]time.Duration{ // a request, as on a core
		"detect": 6 * time.Millisecond, "vehicle": 400 * time.Microsecond, "colour": 300 * time.Microsecond,
		"boxes": 30 * time.Microsecond, "crops": 20 * time.Microsecond, "vehicle_name": time.Microsecond, "colour_name": time.Microsecond,
	}
	spec.Pipeline.Modules = append([]pipelines.Module(nil), spec.Pipeline.Modules...)
	for i := range spec.Pipeline.Modules {
		m := &spec.Pipeline.Modules[i]
		require.NotZero(t, each[m.Name], m.Name)
		for _, b := range []int{1, 2, 4, 8} {
			m.Profile.Points = append(m.Profile.Points, pipelines.Point{Hardware: "cpu", Batch: b, Concurrency: 1, Duration: each[m.Name] * time.Duration(b+1) / 2})
		}
	}
	for _, arrivals := range []string{pipelines.ArrivalsEven, "poisson"} {
		t.Run(arrivals, func(t *testing.T) {
			last := 0.0
			for _, rate := range []float64{2, 8, 30, 40} {
				one := *spec.Pipeline
				one.Rate, one.Arrivals = rate, arrivals
				p := planned(t, scheduler.Spec{Pipeline: &one, Hardware: spec.Hardware})
				assert.GreaterOrEqual(t, p.Cost, last*(1-2*plan.OptimalityGap), "%v/s: %s", rate, p.Describe())
				for _, m := range p.Modules {
					if one.Module(m.Name).Function != "" {
						assert.Zero(t, m.Cost, "%v/s: %s", rate, p.Describe())
					}
				}
				last = p.Cost
			}
		})
	}
}
