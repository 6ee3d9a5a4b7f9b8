//go:build !noserver

package local_test

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
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows/control"
)

const learnedHCL = `
hardware "steady" {
  price = 0.10
  cores = 1
}

hardware "spot" {
  price = 0.03
  cores = 1
}

pool "sums" {
  model    = "sum.onnx"
  measure  = false
  sizes    = "sizes.csv"
  slo      = "300ms"
  budget   = 0.15
  base     = "steady"
  hardware = ["steady", "spot"]
  arrivals = "poisson"

  input "x" {
    datatype = "FP32"
    shape    = [3]
  }

  output "sum" {
    value = model.sum
  }
}
`

// A pool without any profile serves its network at once, learns from its queries what they take,
// and is planned with that. No query is lost, and every answer is the network's.
func TestAPoolWithoutAnyProfileServesAndLearns(t *testing.T) {
	dir := t.TempDir()
	b := onnx.NewBuilder("sum", "x", 3)
	b.Gemm([]float32{1, 1, 1}, []float32{0}, 3, 1)
	for name, text := range map[string]string{
		"pool.hcl": learnedHCL, "sizes.csv": "size,weight\n5,5\n20,3\n80,1\n", "sum.onnx": string(b.Model("sum").Encode()),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s, err := local.Start(t.Context(), local.Options{
		Files: []string{dir}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true, Cores: 2,
		Progress: func(line string) { assert.NotContains(t, line, "profiled") },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	first := s.Services[0]
	assert.Equal(t, map[string]int{"steady": 1, "spot": 1}, first.Plan.Pool.Instances)
	assert.Zero(t, first.Plan.Pool.Goodput)

	over := make(chan struct{})
	end := sums(t, s.Client(), over)
	ctl := system.Control(s.Temporal(), local.Options{})
	var status control.Status
	planned := assert.Eventually(t, func() bool {
		status, err = ctl.Status(t.Context(), "sums")
		return err == nil && status.Serving > 1
	}, 2*time.Minute, 500*time.Millisecond)
	time.Sleep(time.Second)
	close(over)
	answered := end()
	require.True(t, planned)
	t.Log(status.Describe())
	assert.True(t, strings.HasPrefix(status.Cause, "learned what queries take, from "), status.Cause)
	assert.Positive(t, status.Plan.Pool.Goodput)
	assert.Positive(t, answered[1])
	assert.Positive(t, answered[status.Serving])
}

// sums sends requests until over is closed; end returns the answers by generation.
func sums(t *testing.T, c *sdk.Client, over chan struct{}) (end func() map[int]int) {
	var asking sync.WaitGroup
	var mu sync.Mutex
	answered := map[int]int{}
	asking.Go(func() {
		tick := time.NewTicker(40 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			size := []int{5, 20, 5, 80, 7}[i%5]
			asking.Go(func() {
				x, want := make([]float32, 3*size), make([]float32, size)
				for k := range x {
					x[k] = float32(i + k)
					want[k/3] += x[k]
				}
				r, err := c.Infer(t.Context(), "sums", sdk.Inputs{"x": sdk.Float32(x, int64(size), 3)})
				if errors.Is(err, sdk.ErrDeadline) {
					return // only a busy machine can be late
				}
				if !assert.NoError(t, err, "a query is lost") {
					return
				}
				got, err := r.Float32s("sum")
				assert.NoError(t, err)
				assert.Equal(t, want, got)
				mu.Lock()
				defer mu.Unlock()
				answered[r.Generation()]++
			})
		}
	})
	return func() map[int]int {
		asking.Wait()
		return answered
	}
}
