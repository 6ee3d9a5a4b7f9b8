package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const halfHCL = `
hardware "cpu" { price = 0.04 }

pipeline "half" {
  slo  = "8s"
  rate = 1
  input "page" {
    datatype = "UINT8"
    shape    = [3, 8, 8]
  }
  module "works" {
    function = "normalize"
    inputs   = { image = input.page }
    batches  = [1, 2]
    parameters = {
      datatype  = "UINT8"
      mean      = [0, 0, 0]
      deviation = [1, 1, 1]
    }
  }
  module "fails" {
    engine  = "process"
    command = ["false"]
    inputs  = { x = module.works.normalized }
    batches = [1]
  }
  output "y" { value = module.fails.y }
}
`

// TestProfileKeepsWhatItMeasured: a module that cannot be measured takes nothing from those
// before and after it.
func TestProfileKeepsWhatItMeasured(t *testing.T) {
	dir := t.TempDir()
	file, out, state := filepath.Join(dir, "half.hcl"), filepath.Join(dir, "out"), filepath.Join(dir, "state")
	require.NoError(t, os.WriteFile(file, []byte(halfHCL), 0o600))
	t.Chdir(dir)

	got := run(t, "profile", file, "--concurrency", "1")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `"fails"`)
	assert.Contains(t, got.stdout, "# half.works\n")
	assert.Contains(t, got.stdout, "cpu,1,")
	assert.DirExists(t, filepath.Join(dir, ".harpagon", "profiles"), "what was measured is kept")

	got = run(t, "profile", file, "--concurrency", "1", "--out", out, "--state", state)
	assert.Equal(t, ExitError, got.code)
	text, err := os.ReadFile(filepath.Join(out, "half-works.csv"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "cpu,2,")
	assert.NoFileExists(t, filepath.Join(out, "half-fails.csv"))

	got = run(t, "profile", file, "--concurrency", "1", "--state", state)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "as kept in "+state, "nothing is measured twice")
}
