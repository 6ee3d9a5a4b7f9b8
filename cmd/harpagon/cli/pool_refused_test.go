//go:build !noserver

package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

const refusedPool = `hardware "gpu" {
  price = 0.6
  count = 2
}

hardware "cpu" {
  price = 0.12
  count = 2
}

pool "ranking" {
  profile  = "ranker.csv"
  sizes    = "sizes.csv"
  slo      = "2s"
  budget   = 1.5
  base     = "gpu"
  hardware = ["gpu", "cpu"]
}
`

// ofNetwork are the lines of refusedPool that a pool with a network of a fixed batch has
// instead of its profile.
const ofNetwork = `  model    = "fixed.onnx"
  engine   = "onnxruntime"

  input "x" {
    datatype = "FP32"
    shape    = [3]
  }

  output "y" {
    value = model.y
  }
`

// Wrong declarations that are applied while a pool serves are refused at their place in the files,
// or, where only the fleet finds the fault, with what to do. What serves goes on, and no
// query is lost.
func TestAPoolServesOnWhenABadDeclarationIsApplied(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	const profile = "hardware,batch,duration_ms\ngpu,1,4\ngpu,200,40\ncpu,1,3\ncpu,200,2900\ntpu,1,3\ntpu,200,30\n"
	const sizes = "size,weight\n10,5\n40,3\n150,1\n"
	write("pool.hcl", refusedPool)
	write("ranker.csv", profile)
	write("sizes.csv", sizes)
	net := onnx.NewBuilder("fixed", "x", 3)
	net.Gemm(make([]float32, 6), make([]float32, 2), 3, 2)
	fixed := net.Model("y")
	fixed.Graph.Inputs[0] = onnx.Declare("x", onnx.Float, 8, 3)
	write("fixed.onnx", string(fixed.Encode()))
	s, err := local.Start(t.Context(), local.Options{Files: []string{dir}, StateDir: state, Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	lost := askAll(t, s.Client())

	replace := func(old, new string) string {
		require.Contains(t, refusedPool, old)
		return strings.Replace(refusedPool, old, new, 1)
	}
	for name, c := range map[string]struct{ hcl, sizes, place, says string }{
		"no HCL":            {replace("= 1.5", "="), sizes, "pool.hcl line 15, column ", "expression"},
		"an unknown base":   {replace(`= "gpu"`, `= "gppu"`), sizes, "pool.hcl line 16, column 14", `"gppu" is not in the list of hardware. Did you mean "gpu"?`},
		"too little money":  {replace("1.5", "0.5"), sizes, "pool.hcl line 15, column 14", "costs 0.6 an hour, more than the budget of 0.5"},
		"too little time":   {replace(`"2s"`, `"20ms"`), sizes, "pool.hcl line 16, column 14", "a query of size 150 takes"},
		"a size beyond":     {refusedPool, sizes + "250,1\n", "sizes.csv line 5, column 1", `the profile of the base "gpu" ends at 200`},
		"a negative weight": {refusedPool, "size,weight\n10,5\n40,-3\n", "sizes.csv line 3, column 4", "the weight -3"},
		"a fixed batch":     {replace("  profile  = \"ranker.csv\"\n", ofNetwork), sizes, "pool.hcl line 12, column 14", "the batch dimension is fixed at 8, but queries of the pool have up to 150 items"},
	} {
		t.Run(name, func(t *testing.T) {
			write("pool.hcl", c.hcl)
			write("sizes.csv", c.sizes)
			got := run(t, "apply", dir, "--state", state)
			assert.Equal(t, ExitError, got.code)
			assert.Contains(t, got.stderr, c.place)
			assert.Contains(t, joined(got.stderr), c.says)
		})
	}
	write("sizes.csv", sizes)
	other := strings.NewReplacer(`["gpu", "cpu"]`, `["cpu", "tpu"]`, `base     = "gpu"`, `base     = "tpu"`).Replace(refusedPool)
	write("pool.hcl", "hardware \"tpu\" {\n  price = 0.2\n}\n\n"+other)
	got := run(t, "apply", dir, "--state", state)
	assert.Equal(t, ExitError, got.code)
	const hint = `no worker offers the base "tpu", of which a pool has at least one instance; start one with harpagon worker --hardware tpu`
	assert.Contains(t, joined(got.stderr), hint)
	status := joined(run(t, "status", "ranking", "--state", state).stdout)
	assert.Contains(t, status, hint)
	assert.Contains(t, status, "ranking serving 1 ")
	assert.Empty(t, lost())
}

// askAll sends requests until end is called, which returns what was lost.
func askAll(t *testing.T, c *sdk.Client) (end func() []string) {
	var asking sync.WaitGroup
	var mu sync.Mutex
	var lost []string
	answered, over := 0, make(chan struct{})
	asking.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for size := 1; ; size = size%150 + 7 {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			asking.Go(func() {
				r, err := c.Infer(t.Context(), "ranking", sdk.Inputs{"items": sdk.Float32(make([]float32, size), int64(size), 1)})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && r.Generation() == 1:
					answered++
				case err == nil:
					lost = append(lost, "another generation answers")
				case !errors.Is(err, sdk.ErrDeadline): // only a busy machine can be late
					lost = append(lost, err.Error())
				}
			})
		}
	})
	return func() []string {
		close(over)
		asking.Wait()
		assert.Positive(t, answered)
		return lost
	}
}
