package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/language"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows/control"
)

func planned(cost float64, batch int) plan.Plan {
	return plan.Plan{Pipeline: "p", Cost: cost, SLO: 400 * time.Millisecond, Modules: []plan.Module{
		{Name: "same", Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Machines: 1, Duration: 3 * time.Millisecond}}},
		{Name: "m", Groups: []plan.Group{{Hardware: "cpu", Batch: batch, Machines: 2, Duration: 14 * time.Millisecond}}},
	}}
}

func TestPlanBesideWhatRuns(t *testing.T) {
	serves := planned(0.1, 4)
	s := control.Status{Serving: 3, Rate: 10, Cost: 0.1, Plan: &scheduler.Plan{Pipeline: &serves}}
	for name, c := range map[string]struct {
		status control.Status
		to     plan.Plan
		rate   float64
		want   string
	}{
		"nothing":      {control.Status{}, serves, 10, "p does not serve yet\n"},
		"the same":     {s, serves, 10, "p serves this plan, as generation 3\n"},
		"another rate": {s, serves, 12, "p serves another plan, generation 3; this one changes rate 10/s -> 12/s: cost 0.1000 per hour, no change in cost\n"},
		"another plan": {s, planned(0.2, 8), 20, "p serves another plan, generation 3; this one changes rate 10/s -> 20/s: cost 0.1000 -> 0.2000 per hour, costs 0.1000 more per hour\n" +
			"  m: 2 cpu at batch 4, 14 ms -> 2 cpu at batch 8, 14 ms\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := compareRunning(c.status, c.to, c.rate)
			assert.Equal(t, c.want, got.Describe())
			assert.Equal(t, name == "the same", got.Unchanged)
		})
	}
}

// A folder that keeps what was measured is planned with, whether or not a
// system runs on it.
func TestPlanTakesWhatTheStateFolderKeeps(t *testing.T) {
	engines := system.Engines(nil, nil, nil)
	dir, state := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "p.hcl")
	require.NoError(t, os.WriteFile(file, []byte(`hardware "cpu" {
  price = 1
}

pipeline "p" {
  slo  = "400ms"
  rate = 10

  input "x" {
    datatype = "FP32"
    shape    = [3]
  }

  module "m" {
    function = "identity"
    inputs   = { input = input.x }
    batches  = [1, 2]
  }

  output "y" { value = module.m.output }
}
`), 0o644))
	assert.Equal(t, ExitError, run(t, "plan", file).code, "nothing is known of m")
	got := run(t, "plan", file, "--state", filepath.Join(state, "none"))
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "there is no state folder")

	config, diags := language.Load(language.LoadOptions{}, file)
	require.False(t, diags.HasErrors())
	task := executors.NewMeasureTask(config.Document.Pipelines[0], "m", "cpu", "", executors.Signatures(engines...))
	at := func(batch int, d time.Duration) pipelines.Point {
		return pipelines.Point{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: d, Others: 0.9}
	}
	require.NoError(t, system.Folder(state).Kept(engines).Save(task, []pipelines.Point{at(1, 20*time.Millisecond), at(2, 30*time.Millisecond)}))
	got = run(t, "plan", file, "--state", state)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "p: optimal plan")
	assert.Empty(t, got.stderr)

	require.NoError(t, system.Folder(state).Kept(engines).Save(task, []pipelines.Point{at(1, 800*time.Millisecond), at(2, 900*time.Millisecond)}))
	got = run(t, "plan", file, "--state", state)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stdout, "others used up to 0.9 cores while m was profiled", "a refused plan says what may be wrong with its profile")
	assert.Contains(t, got.stdout, "harpagon profile --again")
}
