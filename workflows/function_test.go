package workflows

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// cloud is a gateway for functions as the activities see it.
type cloud struct {
	mu         sync.Mutex
	prepareErr error
	installErr error
	installed  []functions.Deployment
	removed    []string
}

func (c *cloud) prepare(context.Context, functions.Deployment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.prepareErr
}

func (c *cloud) install(_ context.Context, d functions.Deployment) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.installErr == nil {
		c.installed = append(c.installed, d)
	}
	return c.installErr
}

func (c *cloud) remove(_ context.Context, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removed = append(c.removed, name)
	return temporal.NewNonRetryableApplicationError("a caller will not leave", "", nil)
}

func ranker(rate float64) FunctionSpec {
	return FunctionSpec{
		Provider: pipelines.Provider{
			Name: "cloud", VCPUSecond: 1e-5, VCPU: pipelines.Grid{Min: 1, Max: 4, Step: 1}, URL: "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}",
		},
		Function: pipelines.Function{
			Name: "ranker", Provider: "cloud",
			Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: pipelines.Curve{Alpha: 0.1, Beta: 1, Gamma: 0.02}, Max: pipelines.Curve{Alpha: 0.2, Beta: 1, Gamma: 0.03}},
				{Batch: 4, Avg: pipelines.Curve{Alpha: 0.2, Beta: 1, Gamma: 0.03}, Max: pipelines.Curve{Alpha: 0.3, Beta: 1, Gamma: 0.04}},
			}},
			Applications: []pipelines.Application{{Name: "a", SLO: 200 * time.Millisecond, Rate: rate}, {Name: "b", SLO: time.Second, Rate: 2 * rate}},
		},
	}
}

// functionScript runs a function through steps, one a minute, and deletes it
// then.
func functionScript(t *testing.T, c *cloud, s Settings, steps ...func(r *rig)) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetStartTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	env.RegisterWorkflowWithOptions(Function, workflow.RegisterOptions{Name: TypeFunction})
	env.RegisterActivity(&activities.Planning{})
	for name, f := range map[string]any{"PrepareFunction": c.prepare, "InstallFunction": c.install, "RemoveFunction": c.remove} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	r := &rig{TestWorkflowEnvironment: env, t: t}
	for i, step := range steps {
		r.at(time.Duration(i)*time.Minute, func() { step(r) })
	}
	r.at(time.Duration(len(steps))*time.Minute, func() { r.update(UpdateDelete, "the test is over") })
	env.ExecuteWorkflow(TypeFunction, FunctionState{Name: "ranker", Settings: s})
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
}

func (r *rig) functionStatus() FunctionStatus {
	var s FunctionStatus
	r.query(QueryStatus, &s)
	return s
}

func applyRanker(rate float64) func(*rig) {
	return func(r *rig) { r.update(UpdateApply, FunctionApply{Spec: ranker(rate)}) }
}

func TestFunctionServes(t *testing.T) {
	c := &cloud{}
	var got, same, other *reply
	functionScript(t, c, Settings{}, func(r *rig) {
		got = r.update(UpdateApply, FunctionApply{Spec: ranker(10)})
	}, func(r *rig) {
		require.NoError(t, got.rejected)
		s := r.functionStatus()
		assert.Equal(t, Serving, s.Phase)
		assert.Equal(t, []int{1, 1}, []int{s.Generation, s.Serving})
		assert.Equal(t, 30.0, s.Rate)
		require.NotNil(t, s.Plan)
		assert.InDelta(t, s.Plan.CostPerHour(), s.Cost, 1e-12)
		assert.Contains(t, s.Describe(), "function ranker: serving, generation 1, 30 requests/s")
		assert.Contains(t, s.Describe(), "because: applied")
		same = r.update(UpdateApply, FunctionApply{Spec: ranker(10)})
	}, func(r *rig) {
		assert.True(t, same.Unchanged)
		other = r.update(UpdateApply, FunctionApply{Spec: ranker(20), Expect: 1, Reason: "a fair opens"})
	}, func(r *rig) {
		require.NoError(t, other.rejected)
		s := r.functionStatus()
		assert.Equal(t, 2, s.Serving)
		assert.Equal(t, []float64{30, 60}, []float64{s.Decisions[1].Change.FromRate, s.Decisions[1].Change.ToRate})
		assert.Contains(t, s.Describe(), "a fair opens")
		r.SignalWorkflow(SignalGatewayStarted, "")
	}, func(r *rig) {
		require.Len(t, c.installed, 3)
		assert.Equal(t, c.installed[1], c.installed[2], "a gateway that started anew is told again")
		r.update(UpdateDrain, "the night")
	}, func(r *rig) {
		assert.Equal(t, Drained, r.functionStatus().Phase)
		r.update(UpdateApply, FunctionApply{Spec: ranker(20)})
	}, func(r *rig) {
		assert.Equal(t, 3, r.functionStatus().Serving)
	})
	assert.Equal(t, []string{"ranker", "ranker"}, c.removed, "what goes wrong at the end does not keep it")
}

func TestFunctionRefusals(t *testing.T) {
	c := &cloud{}
	var all []*reply
	functionScript(t, c, Settings{}, func(r *rig) {
		unnamed, unreachable, odd := ranker(10), ranker(10), ranker(10)
		unnamed.Function.Name = "other"
		unreachable.Provider.URL = ""
		odd.Options.Policy = "best"
		for _, s := range []FunctionSpec{unnamed, unreachable, odd} {
			all = append(all, r.update(UpdateApply, FunctionApply{Spec: s}))
		}
		all = append(all, r.update(UpdateApply, FunctionApply{Spec: ranker(10), Expect: 7}))
	}, func(r *rig) {
		for i, want := range []string{"was sent to the workflow", "has no url", `no policy "best"`, "is at generation 0, not 7"} {
			assert.ErrorContains(t, all[i].rejected, want)
		}
		assert.Zero(t, r.functionStatus().Generation)
	})
	assert.ErrorContains(t, CheckFunctionSpec(FunctionSpec{}), "has no name")
}

// TestFunctionFailures: a provider that is away is asked again; an objective
// that nothing meets waits for another spec; what served goes on.
func TestFunctionFailures(t *testing.T) {
	c := &cloud{prepareErr: temporal.NewNonRetryableApplicationError("cannot be reached", activities.TypeNotReady, nil)}
	functionScript(t, c, Settings{RetryAfter: 30 * time.Second}, applyRanker(10), func(r *rig) {
		s := r.functionStatus()
		assert.Equal(t, Waiting, s.Phase)
		require.NotNil(t, s.Failure)
		assert.Equal(t, "cannot be reached", s.Failure.Reason)
		assert.False(t, s.Failure.RetryAt.IsZero())
		c.mu.Lock()
		c.prepareErr = nil
		c.mu.Unlock()
	}, func(r *rig) {}, func(r *rig) {
		s := r.functionStatus()
		assert.Equal(t, Serving, s.Phase, "it was tried again")
		assert.Nil(t, s.Failure)
		assert.NotEmpty(t, s.Decisions[0].Failure)
		hasty := ranker(10)
		hasty.Function.Applications[0].SLO = time.Millisecond
		r.update(UpdateApply, FunctionApply{Spec: hasty})
	}, func(r *rig) {
		s := r.functionStatus()
		assert.Equal(t, []int{1, 1}, []int{s.Generation, s.Serving}, "the status tells of what serves")
		assert.Equal(t, &Asked{Generation: 2, Rate: 30, Cause: "applied"}, s.Asked)
		assert.Equal(t, Serving, s.Phase)
		require.NotNil(t, s.Failure)
		assert.Equal(t, activities.TypeInfeasible, s.Failure.Type)
		assert.True(t, s.Failure.RetryAt.IsZero())
		assert.Contains(t, s.Describe(), "could not be carried out")
		c.mu.Lock()
		c.installErr = temporal.NewNonRetryableApplicationError("no token", "", nil)
		c.mu.Unlock()
		r.SignalWorkflow(SignalGatewayStarted, "")
	}, func(r *rig) {
		s := r.functionStatus()
		assert.Equal(t, "no token", s.Failure.Reason)
		assert.False(t, s.Failure.RetryAt.IsZero())
	})
}

// seen is what a gateway reports every five seconds: the rates of a and b.
func seen(now time.Time, generation int, a, b float64) functions.Measures {
	return functions.Measures{
		Function: "ranker", Generation: generation, From: now.Add(-5 * time.Second), To: now,
		Applications: []functions.ApplicationMeasures{{Name: "a", Offered: a}, {Name: "b", Offered: b}},
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
			world := &cloud{}
			steps = append(steps, func(r *rig) {
				for i := range 12 {
					r.at(time.Duration(i)*5*time.Second, func() {
						r.SignalWorkflow(SignalMeasures, seen(r.Now(), r.functionStatus().Serving, c.a, c.b))
					})
				}
			}, func(*rig) {}, func(r *rig) {
				s := r.functionStatus()
				last := world.installed[len(world.installed)-1].Function.Applications
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
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	c := &cloud{}
	env.RegisterWorkflowWithOptions(Function, workflow.RegisterOptions{Name: TypeFunction})
	env.RegisterActivity(&activities.Planning{})
	for name, f := range map[string]any{"PrepareFunction": c.prepare, "InstallFunction": c.install} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	r := &rig{TestWorkflowEnvironment: env, t: t}
	r.at(0, func() { applyRanker(10)(r) })
	r.at(time.Minute, func() { r.SignalWorkflow(SignalMeasures, seen(r.Now(), 1, 10, 20)) })
	env.ExecuteWorkflow(TypeFunction, FunctionState{Name: "ranker", Settings: Settings{ContinueAfter: 2}})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	var state FunctionState
	require.NoError(t, fromPayloads(again, &state))
	assert.Equal(t, 1, state.Serving.Generation)
	assert.Equal(t, c.installed[0].Plan.Dispatch(), state.Serving.Plan.Dispatch(), "the plan survives the change of runs")
	assert.Len(t, state.Drift, 2)
}
