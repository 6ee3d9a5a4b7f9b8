package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// door is a gateway that says what it is told to.
type door struct{ err error }

func (d door) Prepare(context.Context, placement.Deployment) error { return d.err }
func (d door) Install(context.Context, placement.Deployment) error { return d.err }
func (d door) Release(context.Context, string, []string) error     { return d.err }
func (d door) Remove(context.Context, string) error                { return d.err }
func (d door) Services() []string                                  { return nil }
func (d door) Measures(string) autoscale.Measures                  { return autoscale.Measures{} }

func TestGatewayActivities(t *testing.T) {
	for _, want := range []error{nil, errors.New("not now")} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		g := &GatewayActivities{Gateway: door{want}}
		env.RegisterActivity(g)
		for _, run := range []func() error{
			func() error { _, err := env.ExecuteActivity(g.Prepare, placement.Deployment{}); return err },
			func() error { _, err := env.ExecuteActivity(g.Install, placement.Deployment{}); return err },
			func() error { _, err := env.ExecuteActivity(g.Release, ReleaseInput{}); return err },
			func() error { _, err := env.ExecuteActivity(g.Remove, "p"); return err },
		} {
			if err := run(); want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, want.Error())
			}
		}
	}
}

func TestPlanningErrorsAreFinal(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	var p Planning
	env.RegisterActivity(&p)
	slow := pipelines.Pipeline{Name: "p", SLO: time.Millisecond, Rate: 1, Modules: []pipelines.Module{{
		Name: "m", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{point("cpu", 8)}},
	}}}
	problem := plan.Problem{Pipeline: slow, Hardware: []pipelines.Hardware{{Name: "cpu", Price: 1}}}
	_, err := env.ExecuteActivity(p.SplitLatency, SplitInput{Problem: problem})
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	assert.Equal(t, TypeInfeasible, app.Type())
	assert.True(t, app.NonRetryable())

	problem.Pipeline.SLO = time.Second
	solved := policies.Solve(problem, plan.Options{})
	require.NotEqual(t, plan.Infeasible, solved.Status, solved.Reason)
	_, err = env.ExecuteActivity(p.Place, placement.Request{Pipeline: problem.Pipeline, Plan: solved})
	require.ErrorAs(t, err, &app)
	assert.Equal(t, TypeMisfit, app.Type())
}

func TestProfileStore(t *testing.T) {
	s := ProfileStore{Dir: filepath.Join(t.TempDir(), "profiles")}
	key := ProfileKey{Model: "sha256:1", Engine: "e", Version: "1", Hardware: "cpu", Machine: "m"}
	got, err := s.Load(key)
	require.NoError(t, err)
	assert.Empty(t, got)
	want := []pipelines.Point{point("cpu", 1)}
	require.NoError(t, s.Save(key, want))
	got, err = s.Load(key)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	for name, other := range map[string]ProfileKey{
		"model":    {Model: "sha256:2", Engine: "e", Version: "1", Hardware: "cpu", Machine: "m"},
		"engine":   {Model: "sha256:1", Engine: "f", Version: "1", Hardware: "cpu", Machine: "m"},
		"version":  {Model: "sha256:1", Engine: "e", Version: "2", Hardware: "cpu", Machine: "m"},
		"hardware": {Model: "sha256:1", Engine: "e", Version: "1", Hardware: "gpu", Machine: "m"},
		"machine":  {Model: "sha256:1", Engine: "e", Version: "1", Hardware: "cpu", Machine: "n"},
	} {
		got, err := s.Load(other)
		require.NoError(t, err)
		assert.Empty(t, got, "another "+name)
	}
	files, err := os.ReadDir(s.Dir)
	require.NoError(t, err)
	require.Equal(t, 1, len(files), "nothing half written is left")
	require.NoError(t, os.WriteFile(filepath.Join(s.Dir, files[0].Name()), []byte("{"), 0o644))
	got, err = s.Load(key)
	require.NoError(t, err)
	assert.Empty(t, got, "a broken file is measured anew")
}

func TestMergeLaterCounts(t *testing.T) {
	old, fresh := point("cpu", 1), point("cpu", 1)
	fresh.Duration = 7 * time.Millisecond
	assert.Equal(t, []pipelines.Point{fresh, point("cpu", 2)}, merge([]pipelines.Point{point("cpu", 2), old}, []pipelines.Point{fresh}))
}

// functionDoor is a gateway for functions that says what it is told to.
type functionDoor struct{ err error }

func (d functionDoor) Prepare(context.Context, functions.Deployment) error { return d.err }
func (d functionDoor) Install(context.Context, functions.Deployment) error { return d.err }
func (d functionDoor) Remove(context.Context, string) error                { return d.err }

func TestFunctionActivities(t *testing.T) {
	for _, want := range []error{nil, fmt.Errorf("function f cannot be reached: %w", errors.New("refused"))} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		g := &FunctionActivities{Functions: functionDoor{want}}
		env.RegisterActivity(g)
		for _, run := range []func() error{
			func() error { _, err := env.ExecuteActivity(g.PrepareFunction, functions.Deployment{}); return err },
			func() error { _, err := env.ExecuteActivity(g.InstallFunction, functions.Deployment{}); return err },
			func() error { _, err := env.ExecuteActivity(g.RemoveFunction, "f"); return err },
		} {
			if err := run(); want == nil {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, want.Error())
			}
		}
	}
}

func TestPlanFunctionErrorsAreFinal(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	var p Planning
	env.RegisterActivity(&p)
	in := FunctionInput{Problem: functions.Problem{
		Provider: pipelines.Provider{Name: "c", VCPUSecond: 1, VCPU: pipelines.Grid{Min: 1, Max: 1, Step: 1}},
		Function: pipelines.Function{
			Name: "f", Provider: "c", Applications: []pipelines.Application{{Name: "a", SLO: time.Millisecond, Rate: 1}},
			Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{{Batch: 1, Avg: pipelines.Curve{Beta: 1, Gamma: 1}, Max: pipelines.Curve{Beta: 1, Gamma: 1}}}},
		},
	}}
	_, err := env.ExecuteActivity(p.PlanFunction, in)
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	assert.Equal(t, TypeInfeasible, app.Type())
	assert.True(t, app.NonRetryable())
	in.Problem.Function.Applications = nil
	_, err = env.ExecuteActivity(p.PlanFunction, in)
	require.ErrorAs(t, err, &app)
	assert.Equal(t, TypeInvalid, app.Type())
}
