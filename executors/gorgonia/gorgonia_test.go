package gorgonia

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/executors/reference"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// tolerance of a float32 engine against float64 loops, relative to the largest
// output.
const tolerance = 2e-5

func weights(rng *rand.Rand, n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(rng.NormFloat64()) / 4
	}
	return w
}

// network draws a small network of convolutions and dense layers.
func network(rng *rand.Rand, channels, size, layers int) *onnx.Model {
	b := onnx.NewBuilder("drawn", "image", int64(channels), int64(size), int64(size))
	in, extent := channels, size
	for range layers {
		out := 1 + rng.IntN(5)
		stride, kernel := 1+rng.IntN(2), 1+2*rng.IntN(2)
		b.Conv(weights(rng, out*in*kernel*kernel), weights(rng, out), [4]int64{int64(out), int64(in), int64(kernel), int64(kernel)}, int64(stride), int64(kernel/2))
		in, extent = out, (extent+2*(kernel/2)-kernel)/stride+1
		switch rng.IntN(3) {
		case 0:
			b.Relu()
		case 1:
			b.Sigmoid()
		}
		if extent >= 2 && rng.IntN(3) == 0 {
			b.MaxPool(2, 2, 0)
			extent = (extent-2)/2 + 1
		}
	}
	if rng.IntN(3) == 0 {
		b.GlobalAveragePool()
		extent = 1
	}
	if rng.IntN(4) > 0 {
		b.Flatten()
		k, n := in*extent*extent, 1+rng.IntN(6)
		b.Gemm(weights(rng, k*n), weights(rng, n), int64(k), int64(n))
		if rng.IntN(2) == 0 {
			b.Softmax()
		}
	}
	return b.Model("out")
}

func TestAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		m := network(rng, 1+rng.IntN(3), 4+rng.IntN(9), 1+rng.IntN(3))
		p, err := onnx.Compile(m)
		require.NoError(t, err)
		sizes := []int{1, 2, 4, 8}
		in, err := newInstance(context.Background(), p, sizes)
		require.NoError(t, err, p.Describe())
		defer in.Close()
		for _, n := range []int{1, 2, 3, 4, 7, 8} {
			compare(t, p, in, rng, n)
		}
	})
}

type fataler interface {
	require.TestingT
	Helper()
}

func compare(t fataler, p *onnx.Program, in executors.Instance, rng *rand.Rand, n int) {
	t.Helper()
	items, raw := make([][]wire.Tensor, n), make([][]float32, n)
	shape := p.Signature().Inputs[0].Shape
	for i := range items {
		raw[i] = weights(rng, p.Values[p.Inputs[0]].Len())
		items[i] = []wire.Tensor{wire.FromFloat32(raw[i], shape...)}
	}
	got, err := in.Run(context.Background(), items)
	require.NoError(t, err)
	require.Len(t, got, n)
	for i := range items {
		want, err := reference.Run(p, [][]float32{raw[i]})
		require.NoError(t, err)
		have, err := got[i][0].Float32s()
		require.NoError(t, err)
		require.Len(t, have, len(want[0]))
		largest := float32(1)
		for _, v := range want[0] {
			largest = max(largest, v, -v)
		}
		for j := range want[0] {
			require.InDelta(t, want[0][j], have[j], tolerance*float64(largest), "batch %d, request %d, element %d\n%s", n, i, j, p.Describe())
		}
	}
}

func TestAddMulTanhReshapeAgainstReference(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := onnx.NewModel(13)
	m.Graph.Inputs = []*onnx.ValueInfo{onnx.Declare("x", onnx.Float, -1, 2, 3, 3)}
	m.Graph.Outputs = []*onnx.ValueInfo{{Name: "y"}}
	m.Graph.Initializers = []*onnx.Tensor{
		{Name: "scale", Type: onnx.Float, Dims: []int64{2, 1, 1}, Floats: []float32{2, -3}},
		{Name: "shift", Type: onnx.Float, Dims: []int64{1, 1, 3, 1}, Floats: []float32{1, 2, 3}},
		{Name: "shape", Type: onnx.Int64, Dims: []int64{3}, Ints: []int64{0, 3, -1}},
		{Name: "matrix", Type: onnx.Float, Dims: []int64{18, 4}, Floats: weights(rng, 72)},
	}
	m.Graph.Nodes = []*onnx.Node{
		{Op: "Mul", Inputs: []string{"x", "scale"}, Outputs: []string{"a"}},
		{Op: "Add", Inputs: []string{"shift", "a"}, Outputs: []string{"b"}},
		{Op: "Tanh", Inputs: []string{"b"}, Outputs: []string{"c"}},
		{Op: "Add", Inputs: []string{"c", "x"}, Outputs: []string{"d"}},
		{Op: "Mul", Inputs: []string{"d", "b"}, Outputs: []string{"e"}},
		{Op: "Reshape", Inputs: []string{"e", "shape"}, Outputs: []string{"f"}},
		{Op: "Identity", Inputs: []string{"f"}, Outputs: []string{"g"}},
		{Op: "Flatten", Inputs: []string{"g"}, Outputs: []string{"h"}},
		{Op: "MatMul", Inputs: []string{"h", "matrix"}, Outputs: []string{"y"}},
	}
	p, err := onnx.Compile(m)
	require.NoError(t, err)
	in, err := newInstance(t.Context(), p, []int{1, 4})
	require.NoError(t, err)
	defer in.Close()
	for range 3 {
		for _, n := range []int{1, 2, 4} {
			compare(t, p, in, rng, n)
		}
	}
	assert.Positive(t, in.Memory())
}

func TestEngineLoadsAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "net.onnx")
	require.NoError(t, os.WriteFile(path, network(rand.New(rand.NewPCG(3, 3)), 3, 8, 2).Encode(), 0o600))
	in, err := New().Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{1, 2}})
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.NoError(t, in.Close(), "closing twice is no error")

	_, err = New().Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path + ".not"}})
	assert.ErrorContains(t, err, `module "m"`)
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = New().Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{0}})
	assert.ErrorIs(t, err, wire.ErrInvalid)
	assert.ErrorContains(t, err, "batch sizes")
}

func TestModelsThatCannotRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	unknown, future := network(rng, 3, 8, 2), network(rng, 3, 8, 2)
	unknown.Graph.Nodes[0].Op = "Frobnicate"
	future.Opsets[0].Version = 999
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"text":         {[]byte("this is no network, but a text"), "onnx:"},
		"operator":     {unknown.Encode(), "Frobnicate"},
		"operator set": {future.Encode(), "operator set 999"},
	} {
		path := filepath.Join(t.TempDir(), "net.onnx")
		require.NoError(t, os.WriteFile(path, c.content, 0o600))
		_, err := New().Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{1}})
		assert.ErrorIs(t, err, wire.ErrInvalid, name)
		assert.ErrorContains(t, err, c.want, name)
	}
	_, err := New().Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m"}})
	assert.ErrorIs(t, err, wire.ErrInvalid)
}

func TestNaNStaysInItsRequest(t *testing.T) {
	p, err := onnx.Compile(network(rand.New(rand.NewPCG(3, 3)), 3, 8, 2))
	require.NoError(t, err)
	in, err := newInstance(t.Context(), p, []int{3})
	require.NoError(t, err)
	defer in.Close()
	nan, clean := make([]float32, 192), wire.FromFloat32(make([]float32, 192), 3, 8, 8)
	for i := range nan {
		nan[i] = float32(math.NaN())
	}
	want, err := in.Run(t.Context(), [][]wire.Tensor{{clean}})
	require.NoError(t, err)
	got, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromFloat32(nan, 3, 8, 8)}, {clean}})
	require.NoError(t, err)
	assert.Equal(t, want[0], got[1])
	got, err = in.Run(t.Context(), [][]wire.Tensor{{clean}})
	require.NoError(t, err)
	assert.Equal(t, want, got, "nothing of it stays")
}

func TestBatchesThatDoNotFit(t *testing.T) {
	p, err := onnx.Compile(network(rand.New(rand.NewPCG(3, 3)), 3, 8, 2))
	require.NoError(t, err)
	in, err := newInstance(t.Context(), p, []int{2})
	require.NoError(t, err)
	defer in.Close()
	good := wire.FromFloat32(make([]float32, 192), 3, 8, 8)
	for name, items := range map[string][][]wire.Tensor{
		"too many":   {{good}, {good}, {good}},
		"none":       {},
		"no input":   {{}},
		"shape":      {{wire.FromFloat32(make([]float32, 192), 192)}},
		"length":     {{{Datatype: "FP32", Shape: []int64{3, 8, 8}, Data: make([]byte, 12)}}},
		"wrong type": {{{Datatype: "UINT8", Shape: []int64{3, 8, 8}, Data: make([]byte, 768)}}},
	} {
		_, err := in.Run(t.Context(), items)
		assert.ErrorIs(t, err, wire.ErrInvalid, name)
	}
}

func BenchmarkRun(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	net := onnx.NewBuilder("cnn", "image", 3, 64, 64)
	for _, c := range [][2]int64{{3, 8}, {8, 16}, {16, 32}, {32, 32}} {
		net.Conv(weights(rng, int(c[0]*c[1]*9)), weights(rng, int(c[1])), [4]int64{c[1], c[0], 3, 3}, 2, 1)
		net.Relu()
	}
	net.Flatten()
	net.Gemm(weights(rng, 512*10), weights(rng, 10), 512, 10)
	p, err := onnx.Compile(net.Model("scores"))
	require.NoError(b, err)
	for _, n := range []int{1, 8} {
		b.Run(fmt.Sprintf("cnn/batch=%d", n), func(b *testing.B) {
			in, err := newInstance(b.Context(), p, []int{n})
			require.NoError(b, err)
			defer in.Close()
			items := make([][]wire.Tensor, n)
			for i := range items {
				items[i] = []wire.Tensor{wire.FromFloat32(weights(rng, 3*64*64), 3, 64, 64)}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := in.Run(b.Context(), items); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
