//go:build !noserver

package local_test

import (
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

// TestSeveralProcessesServeOnADevice measures, plans and serves the example with several batches at a time. One of its
// programs is killed meanwhile: all requests are answered, and its place is taken.
func TestSeveralProcessesServeOnADevice(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	for _, policy := range []string{pipelines.PolicyExact, "piccolo"} {
		t.Run(policy, func(t *testing.T) {
			if policy != pipelines.PolicyExact {
				testkit.Long(t)
			}
			s, err := local.Start(t.Context(), local.Options{
				Files: []string{"../../examples/concurrent"}, Vars: map[string]string{"slo": "20s"}, Plan: pipelines.Planning{Policy: policy, Concurrency: true},
				StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true, Fixed: true, Cores: 2,
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			planned := s.Services[0].Plan.Pipeline
			require.Equal(t, policy, planned.Policy)
			most := 0
			for _, g := range planned.Modules[0].Groups {
				most = max(most, g.Concurrency)
			}
			require.Greater(t, most, 1, planned.Describe())

			var programs sync.Map
			ask := func(n int) {
				out, err := s.Client().Infer(t.Context(), "small", sdk.Inputs{"x": sdk.Float32([]float32{1, 2, 3, float32(n)}, 4)})
				if !assert.NoError(t, err) {
					return
				}
				y, err := out.Float32s("y")
				assert.NoError(t, err)
				assert.Equal(t, []float32{1, 2, 3, float32(n)}, y)
				pid, err := out.Int64s("program")
				assert.NoError(t, err)
				programs.Store(pid[0], true)
			}
			many := func(begun func(n int64)) (seen []int) {
				programs.Clear()
				var n atomic.Int64
				var all sync.WaitGroup
				for range 32 {
					all.Go(func() {
						for i := n.Add(1); i <= 400 && !t.Failed(); i = n.Add(1) {
							begun(i)
							ask(int(i))
						}
					})
				}
				all.Wait()
				programs.Range(func(pid, _ any) bool {
					seen = append(seen, int(pid.(int64)))
					return true
				})
				return seen
			}
			before := many(func(int64) {})
			require.GreaterOrEqual(t, len(before), most)
			require.NotContains(t, before, os.Getpid())
			many(func(n int64) {
				if n == 100 {
					assert.NoError(t, syscall.Kill(before[0], syscall.SIGKILL))
				}
			})
			require.Eventually(t, func() bool {
				after := many(func(int64) {})
				return len(after) >= len(before) && !slices.Contains(after, before[0])
			}, 2*time.Minute, 100*time.Millisecond)
		})
	}
}
