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

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// stub is a gateway that returns its error.
type stub struct{ err error }

func (d stub) Prepare(context.Context, placement.Deployment) error { return d.err }
func (d stub) Install(context.Context, placement.Deployment) error { return d.err }
func (d stub) Release(context.Context, string, []string) error     { return d.err }
func (d stub) Remove(context.Context, string, placement.Age) error { return d.err }
func (d stub) Announce(string)                                     {}
func (d stub) Try(string, pipelines.Update) error                  { return d.err }
func (d stub) Services() []string                                  { return nil }
func (d stub) Measures(string) autoscale.Measures                  { return autoscale.Measures{} }

func TestGatewayActivities(t *testing.T) {
	for _, want := range []error{nil, errors.New("not now"), fmt.Errorf("function f cannot be reached: %w", errors.New("refused"))} {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestActivityEnvironment()
		g := &GatewayActivities{Gateway: stub{want}}
		env.RegisterActivity(g)
		for _, run := range []func() error{
			func() error { _, err := env.ExecuteActivity(g.Prepare, placement.Deployment{}); return err },
			func() error { _, err := env.ExecuteActivity(g.Install, placement.Deployment{}); return err },
			func() error { _, err := env.ExecuteActivity(g.Release, ReleaseInput{}); return err },
			func() error { _, err := env.ExecuteActivity(g.Remove, "p", placement.Age{}); return err },
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
	one := pipelines.Curve{Beta: 1, Gamma: 1}
	function := pipelines.Function{
		Name: "f", Provider: "c", Applications: []pipelines.Application{{Name: "a", SLO: time.Millisecond, Rate: 1}},
		Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{{Batch: 1, Avg: one, Max: one}}},
	}
	provider := pipelines.Provider{Name: "c", VCPUSecond: 1, VCPU: pipelines.Grid{Min: 1, Max: 1, Step: 1}}
	hardware := []pipelines.Hardware{{Name: "cpu", Price: 1}}
	devices := []placement.Device{{Host: "h", Name: "cpu/0", Hardware: "cpu"}}
	fails := func(run any, in any, kind string) {
		t.Helper()
		_, err := env.ExecuteActivity(run, in)
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.Equal(t, kind, app.Type())
		assert.True(t, app.NonRetryable())
	}
	spec := scheduler.Spec{Pipeline: &slow, Hardware: hardware}
	fails(p.Plan, PlanInput{Spec: spec, Fleet: scheduler.Fleet{Devices: devices}}, TypeInfeasible)
	fails(p.Plan, PlanInput{Spec: spec, Fleet: scheduler.Fleet{Devices: []placement.Device{}}}, TypeInfeasible)
	fails(p.Plan, PlanInput{Spec: scheduler.Spec{Function: &function, Provider: &provider}}, TypeInfeasible)

	slow.SLO = time.Second
	value, err := env.ExecuteActivity(p.Plan, PlanInput{Spec: spec, Fleet: scheduler.Fleet{Devices: devices}})
	require.NoError(t, err)
	var solved scheduler.Plan
	require.NoError(t, value.Get(&solved))
	assert.Equal(t, scheduler.Solve([]scheduler.Spec{spec}, scheduler.Fleet{Devices: devices}, scheduler.Limits{})[0].CostPerHour(), solved.CostPerHour())
	fails(p.Place, placement.Request{Pipeline: slow, Plan: *solved.Pipeline}, TypeMisfit)
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
	assert.Empty(t, got, "a broken file is measured again")
}

func TestAProfileStaysOnADiskThatTakesNothing(t *testing.T) {
	for _, fault := range testkit.DiskFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			d := testkit.NewDisk(t)
			s := ProfileStore{Dir: filepath.Join(d.Folder, "profiles")}
			key := ProfileKey{Model: "sha256:1"}
			want := []pipelines.Point{point("cpu", 1)}
			require.NoError(t, s.Save(key, want))
			require.NoError(t, fault.Begin(d))
			require.ErrorContains(t, s.Save(key, []pipelines.Point{point("cpu", 1), point("cpu", 2)}), "keeping a profile")
			got, err := s.Load(key)
			require.NoError(t, err)
			assert.Equal(t, want, got)
			require.NoError(t, fault.End(d))
		})
	}
}

func TestMergeLaterCounts(t *testing.T) {
	old, fresh := point("cpu", 1), point("cpu", 1)
	fresh.Duration = 7 * time.Millisecond
	assert.Equal(t, []pipelines.Point{fresh, point("cpu", 2)}, merge([]pipelines.Point{point("cpu", 2), old}, []pipelines.Point{fresh}))
}
