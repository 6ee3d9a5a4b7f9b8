package child

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/executors/reference"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func draw(rng *rand.Rand, n int) []float32 {
	all := make([]float32, n)
	for i := range all {
		all[i] = float32(rng.NormFloat64()) / 4
	}
	return all
}

// dense writes a network of one dense layer and returns its path.
func dense(t testing.TB, k, n int64) string {
	rng := rand.New(rand.NewPCG(1, 2))
	b := onnx.NewBuilder("dense", "x", k)
	b.Gemm(draw(rng, int(k*n)), draw(rng, int(n)), k, n)
	b.Sigmoid()
	path := filepath.Join(t.TempDir(), "dense.onnx")
	require.NoError(t, os.WriteFile(path, b.Model("y").Encode(), 0o600))
	return path
}

func TestANetworkInAChildComputesWhatItShould(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	b := onnx.NewBuilder("small", "image", 3, 8, 8)
	b.Conv(draw(rng, 4*27), draw(rng, 4), [4]int64{4, 3, 3, 3}, 2, 1)
	b.Relu()
	b.MaxPool(2, 2, 0)
	b.Flatten()
	b.Gemm(draw(rng, 16*5), draw(rng, 5), 16, 5)
	b.Softmax()
	path := filepath.Join(t.TempDir(), "small.onnx")
	require.NoError(t, os.WriteFile(path, b.Model("scores").Encode(), 0o600))
	p, err := onnx.Load(path)
	require.NoError(t, err)

	in, err := New(gorgonia.Name, quick(new(log))).Load(t.Context(),
		executors.Model{Module: pipelines.Module{Name: "small", Model: path}, Batches: []int{1, 4}})
	require.NoError(t, err)
	defer in.Close()
	assert.Equal(t, p.Signature(), in.Signature())
	for n := 1; n <= 4; n++ {
		items, raw := make([][]wire.Tensor, n), make([][]float32, n)
		for i := range items {
			raw[i] = draw(rng, 192)
			items[i] = []wire.Tensor{wire.FromFloat32(raw[i], 3, 8, 8)}
		}
		got, err := in.Run(t.Context(), items)
		require.NoError(t, err)
		for i := range items {
			want, err := reference.Run(p, raw[i:i+1])
			require.NoError(t, err)
			have, err := got[i][0].Float32s()
			require.NoError(t, err)
			assert.InDeltaSlice(t, want[0], have, 1e-5)
		}
	}
}

func TestADamagedModelIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken.onnx")
	require.NoError(t, os.WriteFile(path, []byte("not a network"), 0o600))
	_, err := New(gorgonia.Name, quick(new(log))).Load(context.Background(),
		executors.Model{Module: pipelines.Module{Name: "small", Model: path}})
	assert.ErrorContains(t, err, path)
	assert.ErrorIs(t, err, wire.ErrInvalid)
	assert.ErrorContains(t, err, "at small")
}

// BenchmarkOverhead compares a small network in this process and in a child.
func BenchmarkOverhead(b *testing.B) {
	m := executors.Model{Module: pipelines.Module{Name: "dense", Model: dense(b, 16, 4)}, Batches: []int{1}}
	for name, engine := range map[string]executors.Engine{
		"in-process": gorgonia.New(), "child": New(gorgonia.Name, Options{}),
	} {
		b.Run(fmt.Sprintf("engine=%s", name), func(b *testing.B) {
			in, err := engine.Load(b.Context(), m)
			require.NoError(b, err)
			defer in.Close()
			items := batch(make([]float32, 16)...)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := in.Run(b.Context(), items); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
