package onnxruntime

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/executors/reference"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// tolerance of a float32 engine against float64 loops, relative to the largest
// output.
const tolerance = 2e-5

func code(t *testing.T, err error) wire.Code {
	t.Helper()
	e := new(wire.Error)
	require.ErrorAs(t, err, &e)
	return e.Code
}

func TestAgainstReference(t *testing.T) {
	needs(t)
	rapid.Check(t, func(r *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		channels, out, size := 1+rng.IntN(3), 1+rng.IntN(4), 4+rng.IntN(8)
		b := onnx.NewBuilder("drawn", "image", int64(channels), int64(size), int64(size))
		b.Conv(weights(rng, out*channels*9), weights(rng, out), [4]int64{int64(out), int64(channels), 3, 3}, 1, 1)
		b.Relu()
		b.Flatten()
		b.Gemm(weights(rng, out*size*size*3), weights(rng, 3), int64(out*size*size), 3)
		m := b.Model("out")
		p, err := onnx.Compile(m)
		require.NoError(t, err)
		in := load(t, write(t, m), 1, 4, 8)
		require.Equal(t, p.Signature(), in.Signature())
		for _, n := range []int{1, 3, 8} {
			items, raw := batchOf(rng, n, int64(channels), int64(size), int64(size))
			got, err := in.Run(t.Context(), items)
			require.NoError(t, err)
			require.Len(t, got, n)
			for i := range got {
				want, err := reference.Run(p, [][]float32{raw[i]})
				require.NoError(t, err)
				have, err := got[i][0].Float32s()
				require.NoError(t, err)
				require.InDeltaSlice(t, want[0], have, tolerance*float64(len(have))*10)
			}
		}
		require.NoError(t, in.Close())
	})
}

func TestImagesOfSeveralSizesInOneBatch(t *testing.T) {
	needs(t)
	in := load(t, write(t, mean()), 4)
	assert.Equal(t, []int64{2, -1, -1}, in.Signature().Inputs[0].Shape)
	small := func(x float32) []wire.Tensor {
		return []wire.Tensor{wire.FromFloat32([]float32{x, x, 2 * x, 2 * x}, 2, 1, 2)}
	}
	large := func(x float32) []wire.Tensor {
		return []wire.Tensor{wire.FromFloat32([]float32{x, x, x, x, 3 * x, 3 * x, 3 * x, 3 * x}, 2, 2, 2)}
	}
	got, err := in.Run(t.Context(), [][]wire.Tensor{small(1), large(2), small(3), large(4)})
	require.NoError(t, err)
	for i, want := range [][]float32{{1, 2}, {2, 6}, {3, 6}, {4, 12}} {
		have, err := got[i][0].Float32s()
		require.NoError(t, err)
		assert.Equal(t, want, have)
		assert.Equal(t, []int64{2, 1, 1}, got[i][0].Shape)
	}
	_, err = in.Run(t.Context(), [][]wire.Tensor{{wire.FromFloat32(nil, 2, 0, 2)}})
	require.Equal(t, wire.CodeInvalid, code(t, err))
	// More sizes than are kept.
	for n := range int64(2 * maxKept) {
		items, _ := batchOf(rand.New(rand.NewPCG(1, 1)), 2, 2, n+1, 3)
		_, err := in.Run(t.Context(), items)
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(in.(*instance).kept), maxKept)
	// And larger ones than are kept together.
	for n := range int64(6) {
		items := [][]wire.Tensor{{wire.FromFloat32(make([]float32, 2*(1000+n)*8000), 2, 1000+n, 8000)}}
		_, err := in.Run(t.Context(), items)
		require.NoError(t, err)
		assert.LessOrEqual(t, in.(*instance).bytes, maxKeptBytes)
	}
	assert.LessOrEqual(t, len(in.(*instance).kept), 4)
}

func TestWhatIsFedWarmsUp(t *testing.T) {
	needs(t)
	in, err := New(Options{}).Load(t.Context(), executors.Model{
		Module: pipelines.Module{Name: "m", Model: write(t, mean())}, Batches: []int{1, 4},
		Feeds: map[string]pipelines.Port{"image": {Datatype: wire.FP32, Shape: []int64{2, 6, 7}}},
	})
	require.NoError(t, err)
	defer in.Close()
	assert.Len(t, in.(*instance).kept, 2)
	assert.Contains(t, in.(*instance).kept, "\x04\x02\x06\x07")
}

func TestAModelOfFixedBatch(t *testing.T) {
	needs(t)
	m := mean()
	m.Graph.Inputs[0] = onnx.Declare("image", onnx.Float, 3, 2, 1, 2)
	m.Graph.Outputs[0] = onnx.Declare("mean", onnx.Float, 3, 2, 1, 1)
	path := write(t, m)
	_, err := New(Options{}).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{1, 4}})
	require.Equal(t, wire.CodeInvalid, code(t, err))
	require.ErrorContains(t, err, "a batch of 4 is above the model's limit: its batch dimension is fixed at 3")
	in := load(t, path, 1, 3)
	for _, n := range []int{3, 1, 2} {
		items, raw := batchOf(rand.New(rand.NewPCG(uint64(n), 2)), n, 2, 1, 2)
		got, err := in.Run(t.Context(), items)
		require.NoError(t, err)
		for i := range got {
			have, err := got[i][0].Float32s()
			require.NoError(t, err)
			assert.InDelta(t, (raw[i][2]+raw[i][3])/2, have[1], 1e-6)
		}
	}
}

func TestBadBatches(t *testing.T) {
	needs(t)
	in := load(t, write(t, denseModel(rand.New(rand.NewPCG(1, 1)), 4, 2)), 2)
	good := []wire.Tensor{wire.FromFloat32(make([]float32, 4), 4)}
	for name, items := range map[string][][]wire.Tensor{
		"none":           {},
		"above limit":    {good, good, good},
		"shape":          {{wire.FromFloat32(make([]float32, 5), 5)}},
		"rank":           {{wire.FromFloat32(make([]float32, 4), 2, 2)}},
		"type":           {{wire.FromInt64(make([]int64, 4), 4)}},
		"too little":     {{{Datatype: wire.FP32, Shape: []int64{4}, Data: make([]byte, 3)}}},
		"too many":       {{good[0], good[0]}},
		"negative shape": {{{Datatype: wire.FP32, Shape: []int64{-4}, Data: make([]byte, 16)}}},
	} {
		_, err := in.Run(t.Context(), items)
		assert.Equal(t, wire.CodeInvalid, code(t, err), name)
	}
	_, err := in.Run(t.Context(), [][]wire.Tensor{good, good})
	assert.NoError(t, err, "it serves on")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = in.Run(gone, [][]wire.Tensor{good})
	assert.Equal(t, wire.CodeCanceled, code(t, err))
	require.NoError(t, in.Close())
	require.NoError(t, in.Close())
	_, err = in.Run(t.Context(), [][]wire.Tensor{good})
	assert.Equal(t, wire.CodeUnavailable, code(t, err))
}

func TestNaNStaysInItsRequest(t *testing.T) {
	needs(t)
	in := load(t, write(t, denseModel(rand.New(rand.NewPCG(1, 1)), 4, 8, 2)), 2)
	nan := float32(math.NaN())
	got, err := in.Run(t.Context(), [][]wire.Tensor{
		{wire.FromFloat32([]float32{nan, nan, nan, nan}, 4)}, {wire.FromFloat32([]float32{1, 2, 3, 4}, 4)},
	})
	require.NoError(t, err)
	clean, err := got[1][0].Float32s()
	require.NoError(t, err)
	for _, x := range clean {
		assert.False(t, math.IsNaN(float64(x)))
	}
}

func TestACancelledRunLeavesTheModelUsable(t *testing.T) {
	needs(t)
	in := load(t, write(t, denseModel(rand.New(rand.NewPCG(1, 1)), 512, 1024, 1024, 1024, 8)), 64)
	items, _ := batchOf(rand.New(rand.NewPCG(1, 1)), 64, 512)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		go cancel()
		if _, err := in.Run(ctx, items); err != nil {
			assert.Equal(t, wire.CodeCanceled, code(t, err))
		}
		cancel()
	}
	_, err := in.Run(t.Context(), items)
	require.NoError(t, err)
}

func TestSeveralSideBySide(t *testing.T) {
	needs(t)
	path := write(t, denseModel(rand.New(rand.NewPCG(1, 1)), 16, 32, 4))
	m := executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{1, 4}}
	var group sync.WaitGroup
	for seed := range uint64(4) {
		e := New(Options{})
		if seed%2 == 1 {
			e = child.New(Name, child.Options{})
		}
		in, err := e.Load(t.Context(), m)
		require.NoError(t, err)
		t.Cleanup(func() { _ = in.Close() })
		alone := load(t, path, 1)
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 7))
			for range 50 {
				items, _ := batchOf(rng, 4, 16)
				got, err := in.Run(t.Context(), items)
				if !assert.NoError(t, err) {
					return
				}
				for i := range items {
					want, err := alone.Run(t.Context(), items[i:i+1])
					assert.NoError(t, err)
					a, _ := want[0][0].Float32s()
					b, _ := got[i][0].Float32s()
					assert.InDeltaSlice(t, a, b, 1e-4)
				}
			}
		})
	}
	group.Wait()
}

func TestInAChildProcess(t *testing.T) {
	needs(t)
	e := InChild(child.New(Name, child.Options{}), Options{})
	require.NoError(t, e.(executors.Checker).Available())
	assert.Contains(t, e.Version(), "(child 2)")
	path := write(t, denseModel(rand.New(rand.NewPCG(1, 1)), 4, 8, 2))
	in, err := e.Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{1, 4}, MaxBatch: 4})
	require.NoError(t, err)
	defer in.Close()
	assert.Positive(t, in.Memory())
	items, _ := batchOf(rand.New(rand.NewPCG(3, 1)), 4, 4)
	got, err := in.Run(t.Context(), items)
	require.NoError(t, err)
	want, err := load(t, path, 4).Run(t.Context(), items)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	_, err = e.Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: write(t, &onnx.Model{})}, Batches: []int{1}})
	require.Equal(t, wire.CodeInvalid, code(t, err))
}
