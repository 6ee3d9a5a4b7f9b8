//go:build !noserver

package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

// Every executor of a cluster receives the profiles of all its modules. Those of many
// exceed Temporal's limit for one message, and the executors start all the same. Batches
// are slow, so that the plan is found soon.
func TestALargeClusterStarts(t *testing.T) {
	testkit.Long(t)
	const devices, pipelines, points = 10, 8, 900
	dir := t.TempDir()
	profile := "hardware,batch,duration_ms\n"
	for b := 1; b <= points; b++ {
		profile += fmt.Sprintf("a100,%d,%.6f\n", b, 50+20.123456*float64(b))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "model.csv"), []byte(profile), 0o600))
	text, names := "", []string{}
	for i := range pipelines {
		names = append(names, fmt.Sprintf("%q", fmt.Sprintf("p%d", i)))
		text += fmt.Sprintf(`
pipeline "p%d" {
  slo        = "60s"
  rate       = 0.1
  arrivals   = "poisson"
  attainment = 0.5

  input "x" {
    datatype = "FP32"
    shape    = [1]
  }

  module "model" {
    engine  = "emulated"
    profile = "model.csv"
    inputs  = { x = input.x }
  }

  output "y" { value = module.model.y }
}
`, i)
	}
	text += fmt.Sprintf("hardware \"a100\" {\n  price = 4.1\n  count = %d\n}\n\ncluster \"zoo\" {\n  hardware  = \"a100\"\n  devices   = { min = %[1]d, max = %[1]d }\n  pipelines = [%s]\n}\n",
		devices, strings.Join(names, ", "))
	file := filepath.Join(dir, "cluster.hcl")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))

	s, err := local.Start(t.Context(), local.Options{Files: []string{file}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	out, err := s.Client().Infer(t.Context(), "p7", sdk.Inputs{"x": sdk.Float32([]float32{1}, 1)})
	require.NoError(t, err)
	assert.NotEmpty(t, out)
}
