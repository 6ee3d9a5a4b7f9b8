//go:build !noserver

package local_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
)

// poolHCL leaves so much time that only a busy machine can make a query late.
const poolHCL = `
variable "budget" { default = 1.5 }

hardware "gpu" { price = 0.6 }
hardware "cpu" { price = 0.12 }

pool "ranking" {
  profile = "ranker.csv"
  sizes   = "sizes.csv"
  slo     = "2s"
  budget  = var.budget
  base    = "gpu"
}
`

func TestAPoolServesAndChanges(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pool.hcl":   poolHCL,
		"ranker.csv": "hardware,batch,duration_ms\ngpu,1,4\ngpu,200,40\ncpu,1,3\ncpu,200,2900\n",
		"sizes.csv":  "size,weight\n10,5\n40,3\n150,1\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s, err := local.Start(t.Context(), local.Options{Files: []string{dir}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Len(t, s.Services, 1)
	first := s.Services[0]
	require.Equal(t, "ranking", first.Name)
	require.NotNil(t, first.Plan.Pool)
	instances := 0
	for _, n := range first.Plan.Pool.Instances {
		instances += n
	}
	assert.Len(t, first.Executors, instances)

	client, err := sdk.Dial(t.Context(), s.GatewayURL)
	require.NoError(t, err)
	defer client.Close()
	ask := func(size int) (*sdk.Result, error) {
		return client.Infer(t.Context(), "ranking", sdk.Inputs{"items": sdk.Float32(make([]float32, size), int64(size), 1)})
	}
	_, err = ask(201)
	assert.ErrorIs(t, err, sdk.ErrInvalid)
	assert.ErrorContains(t, err, "beyond the profile of pool \"ranking\", which ends at 200")

	var asking sync.WaitGroup
	var mu sync.Mutex
	answered, failed, late := map[int]int{}, []string{}, 0
	over := make(chan struct{})
	asking.Go(func() {
		rng := rand.New(rand.NewPCG(1, 1))
		tick := time.NewTicker(60 * time.Millisecond) // one base can keep up
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			size := 1 + rng.IntN(200)
			asking.Go(func() {
				r, err := ask(size)
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, sdk.ErrDeadline) {
					late++ // only a busy machine can be late
					return
				}
				if err != nil {
					failed = append(failed, err.Error())
					return
				}
				answered[r.Generation()]++
				if scores, err := r.Tensor("scores"); err != nil || scores.Shape[0] != int64(size) {
					failed = append(failed, "the answer to a query has another size")
				}
			})
		}
	})
	ctl := system.Control(s.Temporal(), local.Options{})
	for _, budget := range []string{"0.7", "2"} {
		time.Sleep(400 * time.Millisecond)
		c, diags := hcl.Load(hcl.LoadOptions{Vars: map[string]string{"budget": budget}}, dir)
		require.False(t, diags.HasErrors(), diags)
		reply, err := ctl.Apply(t.Context(), workflows.ApplyRequest{Spec: scheduler.Specs(&c.Document)[0]})
		require.NoError(t, err)
		status, err := ctl.WaitServing(t.Context(), "ranking", reply.Generation, nil)
		require.NoError(t, err)
		assert.LessOrEqual(t, status.Cost, c.Document.Pools[0].Budget)
		assert.NotEqual(t, first.Plan.Pool.Instances, status.Plan.Pool.Instances)
		assert.Equal(t, "matching", status.Dispatch)
	}
	time.Sleep(400 * time.Millisecond)
	close(over)
	asking.Wait()
	t.Logf("answered by generation %v, late %d", answered, late)
	assert.Empty(t, failed)
	assert.GreaterOrEqual(t, len(answered), 3)
	_, err = ctl.Delete(t.Context(), "ranking", "the test is over")
	require.NoError(t, err)
	_, err = ask(10)
	assert.Error(t, err)
}
