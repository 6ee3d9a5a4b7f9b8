package onnxruntime

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
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
		t.Skip("this system does not report how much memory a process has")
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

// children are this process's.
func children(t *testing.T) (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, path := range all {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestNothingLeaksThroughAChild sends good and bad batches to a child: its
// memory stays as it is, and this process's, and what they share.
func TestNothingLeaksThroughAChild(t *testing.T) {
	needs(t)
	if resident() == 0 {
		t.Skip("this system does not report how much memory a process has")
	}
	n := leakBatches / 5 // a child takes longer
	if os.Getenv("HARPAGON_LONG") != "" {
		n = leakBatches
	}
	before := children(t)
	in, err := child.New(Name, child.Options{Output: io.Discard}).Load(t.Context(), executors.Model{
		Module: pipelines.Module{Name: "m", Model: write(t, mean())}, Batches: []int{1, 8},
	})
	require.NoError(t, err)
	defer in.Close()
	var pid int
	for _, p := range children(t) {
		if !slices.Contains(before, p) {
			pid = p
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	batches := func(n int) {
		for i := range n {
			items, _ := batchOf(rng, 1+i%8, 2, int64(1+i%50), 31) // more sizes than are kept
			switch i % 10 {
			case 7:
				items[0][0] = wire.FromFloat32([]float32{1}, 1)
			case 8:
				clear(items[0][0].Data)
				items[0][0].Data[3], items[0][0].Data[2] = 0x7f, 0xc0 // NaN
			case 9:
				items = append(items, items...)
				items = append(items, items...)
				items = append(items, items...)
			}
			_, err := in.Run(t.Context(), items)
			require.Equal(t, i%10 == 7 || len(items) > 8, err != nil, "%v", err)
		}
	}
	batches(n / 2)
	ours, theirs := settled(), residentOf(pid)
	batches(n)
	grown, grownThere := settled()-ours, residentOf(pid)-theirs
	t.Logf("%d batches: the process grew by %d KiB of %d KiB, the child by %d KiB of %d KiB", n, grown>>10, ours>>10, grownThere>>10, theirs>>10)
	assert.Less(t, grown, int64(leakBytes))
	assert.Less(t, grownThere, int64(2*leakBytes), "its heap is not settled before looking")
}
