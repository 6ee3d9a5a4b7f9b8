package onnxruntime

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func TestMain(m *testing.M) {
	if child.Requested() {
		child.Serve(New(Options{}))
	}
	os.Exit(m.Run())
}

// needs skips a test where the engine cannot run.
func needs(t testing.TB) Library {
	t.Helper()
	if err := supported(); err != nil {
		t.Skip(err)
	}
	lib, err := Find(Options{})
	if err != nil {
		t.Skip(err)
	}
	return lib
}

func weights(rng *rand.Rand, n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(rng.NormFloat64()) / 4
	}
	return w
}

// write keeps a model as a file of the test.
func write(t testing.TB, m *onnx.Model) string {
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, os.WriteFile(path, m.Encode(), 0o600))
	return path
}

func load(t testing.TB, path string, batches ...int) executors.Instance {
	t.Helper()
	in, err := New(Options{}).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: batches})
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	return in
}

// batchOf is n requests of random numbers, the raw ones beside.
func batchOf(rng *rand.Rand, n int, shape ...int64) (items [][]wire.Tensor, raw [][]float32) {
	elements := 1
	for _, d := range shape {
		elements *= int(d)
	}
	for range n {
		x := weights(rng, elements)
		items, raw = append(items, []wire.Tensor{wire.FromFloat32(x, shape...)}), append(raw, x)
	}
	return items, raw
}

// mean is a network that takes images of any size and gives the mean of every
// channel.
func mean() *onnx.Model {
	m := onnx.NewModel(13)
	m.Graph.Name = "mean"
	m.Graph.Inputs = []*onnx.ValueInfo{onnx.Declare("image", onnx.Float, -1, 2, -1, -1)}
	m.Graph.Outputs = []*onnx.ValueInfo{onnx.Declare("mean", onnx.Float, -1, 2, 1, 1)}
	m.Graph.Nodes = []*onnx.Node{{Op: "GlobalAveragePool", Inputs: []string{"image"}, Outputs: []string{"mean"}}}
	return m
}

func denseModel(rng *rand.Rand, sizes ...int) *onnx.Model {
	b := onnx.NewBuilder("dense", "x", int64(sizes[0]))
	for i := range sizes[1:] {
		b.Gemm(weights(rng, sizes[i]*sizes[i+1]), weights(rng, sizes[i+1]), int64(sizes[i]), int64(sizes[i+1]))
		if i < len(sizes)-2 {
			b.Relu()
		}
	}
	return b.Model("y")
}
