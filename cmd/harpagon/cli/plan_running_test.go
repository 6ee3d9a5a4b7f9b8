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
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/sdk/local/system"
)

// A folder that keeps what was measured is planned with, whether or not a
// system runs on it.
func TestPlanTakesWhatTheStateFolderKeeps(t *testing.T) {
	engines := system.Engines(system.EngineOptions{})
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

	config, diags := hcl.Load(hcl.LoadOptions{}, file)
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
	assert.Contains(t, got.stdout, "others used up to 0.9 cores while m was profiled", "a refused plan states what may be wrong with its profile")
	assert.Contains(t, got.stdout, "harpagon profile --again")
}
