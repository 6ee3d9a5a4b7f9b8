package cli

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/steps"
)

var update = flag.Bool("update", false, "write the golden texts again")

// result is what a command line left behind.
type result struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, args ...string) result {
	t.Helper()
	return runWith(t, Deps{}, args...)
}

// runWith runs a command line in a world without environment, whose clock
// stands still.
func runWith(t *testing.T, d Deps, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	d.Stdout, d.Stderr = &stdout, &stderr
	if d.Stdin == nil {
		d.Stdin = strings.NewReader("")
	}
	d.Version = "v1.2.3"
	d.Signatures = executors.Signatures(steps.New(steps.Builtin()))
	d.Clock = func() time.Duration { return 0 }
	code := Run(context.Background(), d, args)
	fitsSchema(t, args, stdout.String())
	fitsWidth(t, args, stdout.String())
	return result{code, stdout.String(), stderr.String()}
}

// fitsWidth checks of whatever a command line writes for people that it is within the
// width.
func fitsWidth(t *testing.T, args []string, text string) {
	t.Helper()
	root := New(Deps{Stdout: io.Discard, Stderr: io.Discard})
	c, flags, err := root.Find(args)
	if err != nil || forPrograms(c) || slices.Contains(flags, "--json") || slices.Contains(flags, "--markdown") {
		return
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(strings.TrimSpace(line), " ") { // a word alone cannot be broken
			require.LessOrEqual(t, len([]rune(line)), lineWidth, "%v writes %q", args, line)
		}
	}
}

// folder holds the given files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// golden compares a text with the one on file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "write it with go test ./cmd/harpagon/cli -update")
	assert.Equal(t, string(want), got, "after a change that is meant: go test ./cmd/harpagon/cli -update")
}

// small is a pipeline of two modules, of which what stands below is the rest.
const small = `hardware "v100" {
  price = 3.06
}

pipeline "small" {
  slo  = "%s"
  rate = 100

  input "frame" {
    datatype = "FP32"
    shape    = [3, 96, 96]
  }

  module "detect" {
    profile = "detect.csv"
    inputs  = { image = input.frame }
  }

  module "vehicle" {
    profile = "vehicle.csv"
    inputs  = { crop = module.detect.vehicles }
    fanout  = 2
  }

  output "vehicles" { value = module.vehicle.label }
}
`

func smallFolder(t *testing.T, slo string) string {
	return folder(t, map[string]string{
		"small.hcl":   strings.ReplaceAll(small, "%s", slo),
		"detect.csv":  "hardware,batch,duration_ms\nv100,1,10\nv100,4,25\nv100,8,40\n",
		"vehicle.csv": "hardware,batch,duration_ms\nv100,1,4\nv100,8,12\nv100,16,20\n",
	})
}
