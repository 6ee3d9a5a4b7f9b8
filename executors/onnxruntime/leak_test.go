package onnxruntime

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// The leak test runs leakBatches batches, good and bad, and allows the process
// to grow by leakBytes: less than half a kilobyte a batch.
const (
	leakBatches = 10_000
	leakBytes   = 4 << 20
)

func settled() int64 {
	debug.FreeOSMemory()
	return resident()
}

func TestNothingLeaksOverManyBatches(t *testing.T) {
	needs(t)
	if resident() == 0 {
		t.Skip("this system does not say how much memory a process has")
	}
	rng := rand.New(rand.NewPCG(1, 1))
	dense := load(t, write(t, denseModel(rng, 64, 128, 16)), 1, 8)
	images := load(t, write(t, mean()), 4)
	nan := wire.FromFloat32([]float32{float32(math.NaN())}, 1)
	batches := func(n int) {
		for i := range n {
			items, _ := batchOf(rng, 1+i%8, 64)
			if i%10 == 9 {
				items[0][0] = nan // of a wrong shape, too
			}
			_, err := dense.Run(t.Context(), items)
			require.Equal(t, i%10 == 9, err != nil)
			items, _ = batchOf(rng, 1+i%4, 2, int64(1+i%50), 3) // more sizes than are kept
			_, err = images.Run(t.Context(), items)
			require.NoError(t, err)
		}
	}
	batches(leakBatches / 5)
	before := settled()
	batches(leakBatches)
	grown := settled() - before
	t.Logf("%d batches: the process grew by %d KiB of %d KiB", leakBatches, grown>>10, before>>10)
	assert.Less(t, grown, int64(leakBytes))
}

func TestLoadingOverAndOverLeaksNothing(t *testing.T) {
	needs(t)
	path := write(t, denseModel(rand.New(rand.NewPCG(1, 1)), 256, 256, 16))
	again := func(n int) {
		for range n {
			in, err := New(Options{}).Load(context.Background(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{4}})
			require.NoError(t, err)
			require.NoError(t, in.Close())
		}
	}
	again(50)
	before := settled()
	again(200)
	assert.Less(t, settled()-before, int64(8<<20), "200 models of 280 KB and their arenas")
}
