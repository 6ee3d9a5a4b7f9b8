package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
)

func ranker(rate float64) scheduler.Spec {
	return scheduler.Spec{
		Provider: &pipelines.Provider{
			Name: "cloud", VCPUSecond: 1e-5, VCPU: pipelines.Grid{Min: 1, Max: 4, Step: 1}, URL: "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}",
		},
		Function: &pipelines.Function{
			Name: "traffic", Provider: "cloud",
			Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: pipelines.Curve{Alpha: 0.1, Beta: 1, Gamma: 0.02}, Max: pipelines.Curve{Alpha: 0.2, Beta: 1, Gamma: 0.03}},
				{Batch: 4, Avg: pipelines.Curve{Alpha: 0.2, Beta: 1, Gamma: 0.03}, Max: pipelines.Curve{Alpha: 0.3, Beta: 1, Gamma: 0.04}},
			}},
			Applications: []pipelines.Application{{Name: "a", SLO: 200 * time.Millisecond, Rate: rate}, {Name: "b", SLO: time.Second, Rate: 2 * rate}},
		},
	}
}

// functionScript runs a function through steps, one a minute, and deletes it
// then. No host is there.
func functionScript(t *testing.T, w *world, s Settings, steps ...func(r *rig)) {
	scriptOf(t, scheduler.KindFunction, w, s, steps...)
}

func applyRanker(rate float64) func(*rig) {
	return func(r *rig) { r.update(UpdateApply, ApplyRequest{Spec: ranker(rate)}) }
}

func TestFunctionServes(t *testing.T) {
	c := newWorld(0)
	c.removeErr = temporal.NewNonRetryableApplicationError("a caller will not leave", "", nil)
	var got, same, other *reply
	functionScript(t, c, Settings{}, func(r *rig) {
		got = r.update(UpdateApply, ApplyRequest{Spec: ranker(10)})
	}, func(r *rig) {
		require.NoError(t, got.rejected)
		s := r.status()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, []int{1, 1}, []int{s.Generation, s.Serving})
		assert.Equal(t, 30.0, s.Rate)
		require.NotNil(t, s.Plan)
		assert.InDelta(t, s.Plan.Function.CostPerHour(), s.Cost, 1e-12)
		assert.Contains(t, s.Describe(), "function traffic: serving, generation 1, 30 requests/s")
		assert.Contains(t, s.Describe(), "because: applied")
		same = r.update(UpdateApply, ApplyRequest{Spec: ranker(10)})
	}, func(r *rig) {
		assert.True(t, same.Unchanged)
		other = r.update(UpdateApply, ApplyRequest{Spec: ranker(20), Expect: 1, Reason: "a fair opens"})
	}, func(r *rig) {
		require.NoError(t, other.rejected)
		s := r.status()
		assert.Equal(t, 2, s.Serving)
		assert.Equal(t, []float64{30, 60}, []float64{s.Decisions[1].Change.FromRate, s.Decisions[1].Change.ToRate})
		assert.Contains(t, s.Describe(), "a fair opens")
		r.SignalWorkflow(SignalGatewayStarted, "")
	}, func(r *rig) {
		require.Len(t, c.installed, 3)
		assert.Equal(t, c.installed[1], c.installed[2], "a gateway that restarted has the service installed again")
		r.update(UpdateDrain, "the night")
	}, func(r *rig) {
		assert.Equal(t, Drained, r.status().Phase)
		r.update(UpdateApply, ApplyRequest{Spec: ranker(20)})
	}, func(r *rig) {
		assert.Equal(t, 3, r.status().Serving)
	})
	assert.Equal(t, []string{"traffic", "traffic"}, c.removed, "what goes wrong at the end does not keep it")
}

func TestFunctionRefusals(t *testing.T) {
	c := newWorld(0)
	var all []*reply
	functionScript(t, c, Settings{}, func(r *rig) {
		unnamed, unreachable, odd := ranker(10), ranker(10), ranker(10)
		unnamed.Function.Name = "other"
		unreachable.Provider.URL = ""
		odd.Function.Plan.Policy = "best"
		for _, s := range []scheduler.Spec{unnamed, unreachable, odd} {
			all = append(all, r.update(UpdateApply, ApplyRequest{Spec: s}))
		}
		all = append(all, r.update(UpdateApply, ApplyRequest{Spec: ranker(10), Expect: 7}))
		all = append(all, r.update(UpdateRescale, RescaleRequest{Rate: 7}))
		all = append(all, r.update(UpdateProfile, ""))
		all = append(all, r.update(UpdateApply, ApplyRequest{Spec: traffic(10)}))
	}, func(r *rig) {
		for i, want := range []string{
			`was sent the spec of function "other"`, "has no url", `There is no policy "best"`, "is at generation 0, not 7",
			"apply it with other rates", "nothing to measure: its profile is on file", `was sent the spec of pipeline "traffic"`,
		} {
			assert.ErrorContains(t, all[i].rejected, want)
		}
		assert.Zero(t, r.status().Generation)
	})
	assert.ErrorContains(t, SpecFaults(scheduler.Spec{}), "no service with a name")
}

// TestFunctionFailures: a call to a provider that is away is retried; an objective that
// nothing meets waits for another spec; what served goes on.
func TestFunctionFailures(t *testing.T) {
	c := newWorld(0)
	c.prepareErr = temporal.NewNonRetryableApplicationError("cannot be reached", activities.TypeNotReady, nil)
	functionScript(t, c, Settings{RetryAfter: 30 * time.Second}, applyRanker(10), func(r *rig) {
		s := r.status()
		assert.Equal(t, Waiting, s.Phase)
		require.NotNil(t, s.Failure)
		assert.Equal(t, "cannot be reached", s.Failure.Reason)
		assert.False(t, s.Failure.RetryAt.IsZero())
		c.change(func() { c.prepareErr = nil })
	}, func(r *rig) {}, func(r *rig) {
		s := r.status()
		assert.Equal(t, Serving, s.Phase, "it was tried again")
		assert.Nil(t, s.Failure)
		assert.NotEmpty(t, s.Decisions[0].Failure)
		hasty := ranker(10)
		hasty.Function.Applications[0].SLO = time.Millisecond
		r.update(UpdateApply, ApplyRequest{Spec: hasty})
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, []int{1, 1}, []int{s.Generation, s.Serving}, "the status is of what serves")
		assert.Equal(t, &PendingChange{Generation: 2, Rate: 30, Cause: "applied"}, s.Requested)
		assert.Equal(t, Serving, s.Phase)
		require.NotNil(t, s.Failure)
		assert.Equal(t, activities.TypeInfeasible, s.Failure.Type)
		assert.True(t, s.Failure.RetryAt.IsZero())
		assert.Contains(t, s.Describe(), "could not be carried out")
		c.change(func() { c.installErr = temporal.NewNonRetryableApplicationError("no token", "", nil) })
		r.SignalWorkflow(SignalGatewayStarted, "")
	}, func(r *rig) {
		s := r.status()
		assert.Equal(t, activities.TypeInfeasible, s.Failure.Type, "the latest spec is still what it was")
		assert.Equal(t, "no token", s.Decisions[len(s.Decisions)-1].Failure)
		assert.False(t, s.Failure.RetryAt.IsZero())
		assert.Len(t, c.installed, 1)
		c.change(func() { c.installErr = nil })
	}, func(r *rig) {
		s := r.status()
		assert.Len(t, c.installed, 2, "the gateway has what serves again")
		assert.Equal(t, 200*time.Millisecond, c.installed[1].Function.Function.Applications[0].SLO)
		assert.Equal(t, activities.TypeInfeasible, s.Failure.Type)
	})
}

// seen is what a gateway reports every five seconds: the rates of a and b.
func seen(now time.Time, generation int, a, b float64) autoscale.Measures {
	from := now.Add(-5 * time.Second)
	return autoscale.Measures{
		Pipeline: "traffic", Kind: scheduler.KindFunction, Generation: generation, From: from, To: now, Offered: a + b,
		Function: &functions.Measures{
			Function: "traffic", Generation: generation, From: from, To: now,
			Applications: []functions.ApplicationMeasures{{Name: "a", Offered: a}, {Name: "b", Offered: b}},
		},
	}
}

func TestFunctionFollowsItsApplications(t *testing.T) {
	for name, c := range map[string]struct {
		fixed bool
		a, b  float64
		want  []float64
	}{
		"one rises":      {a: 30, b: 20, want: []float64{30, 20}},
		"both change":    {a: 30, b: 5, want: []float64{30, 5}},
		"as planned":     {a: 10, b: 21, want: []float64{10, 20}},
		"nobody calls b": {a: 10, b: 0, want: []float64{10, 20}},
		"fixed":          {fixed: true, a: 30, b: 20, want: []float64{10, 20}},
	} {
		t.Run(name, func(t *testing.T) {
			steps := []func(*rig){applyRanker(10), func(*rig) {}, func(*rig) {}}
			world := newWorld(0)
			steps = append(steps, func(r *rig) {
				for i := range 12 {
					r.at(time.Duration(i)*5*time.Second, func() {
						r.SignalWorkflow(SignalMeasures, seen(r.Now(), r.status().Serving, c.a, c.b))
					})
				}
			}, func(*rig) {}, func(r *rig) {
				s := r.status()
				last := world.installed[len(world.installed)-1].Function.Function.Applications
				assert.InDeltaSlice(t, c.want, []float64{last[0].Rate, last[1].Rate}, 1, "the other's rate is smoothed")
				if c.want[0] != 10 {
					assert.Contains(t, s.Cause, "the load of a changed: rate 30/s")
				}
				require.NotNil(t, s.Measures)
				assert.Equal(t, Serving, s.Phase)
			})
			functionScript(t, world, Settings{Fixed: c.fixed}, steps...)
		})
	}
}

func TestFunctionContinuesAsNew(t *testing.T) {
	w := newWorld(0)
	r := newRig(t, w)
	r.at(0, func() { applyRanker(10)(r) })
	r.at(time.Minute, func() { r.SignalWorkflow(SignalMeasures, seen(r.Now(), 1, 10, 20)) })
	r.ExecuteWorkflow(TypeService, State{Kind: scheduler.KindFunction, Name: "traffic", Settings: Settings{ContinueAfter: 3}})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, r.GetWorkflowError(), &again)
	var state State
	require.NoError(t, fromPayloads(again, &state))
	assert.Equal(t, 1, state.Serving.Generation)
	assert.Equal(t, w.installed[0].Function.Plan.Dispatch(), state.Serving.Plan.Function.Dispatch(), "the plan survives the change of runs")
	assert.Len(t, state.Detectors.Applications, 2)
}
