package reference

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/onnx"
)

// The expected values of these tests are worked out by hand.

func run(t *testing.T, m *onnx.Model, inputs ...[]float32) []float32 {
	t.Helper()
	p, err := onnx.Compile(m)
	require.NoError(t, err)
	out, err := Run(p, inputs)
	require.NoError(t, err)
	return out[0]
}

func TestConv(t *testing.T) {
	b := onnx.NewBuilder("t", "x", 1, 3, 3)
	b.Conv([]float32{0, 1, 0, 1, -4, 1, 0, 1, 0}, []float32{10}, [4]int64{1, 1, 3, 3}, 2, 1)
	// Corners of 1..9 under the Laplacian with zero padding, plus 10.
	assert.Equal(t, []float32{2 + 4 - 4 + 10, 2 + 6 - 12 + 10, 4 + 8 - 28 + 10, 6 + 8 - 36 + 10},
		run(t, b.Model("y"), []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}))
}

func TestMaxPool(t *testing.T) {
	b := onnx.NewBuilder("t", "x", 1, 2, 4)
	b.MaxPool(2, 2, 0)
	assert.Equal(t, []float32{6, 8}, run(t, b.Model("y"), []float32{1, 2, 3, 4, 5, 6, 7, 8}))
}

func TestDense(t *testing.T) {
	b := onnx.NewBuilder("t", "x", 2)
	b.Gemm([]float32{1, 2, 3, 4, 5, 6}, []float32{0.5, 0, -0.5}, 2, 3)
	b.Relu()
	assert.Equal(t, []float32{0, 0, 0}, run(t, b.Model("y"), []float32{-1, -1}))
	assert.Equal(t, []float32{9.5, 12, 14.5}, run(t, b.Model("y"), []float32{1, 2}))
}

func TestMeanAndSoftmax(t *testing.T) {
	b := onnx.NewBuilder("t", "x", 2, 1, 2)
	b.GlobalAveragePool()
	b.Flatten()
	b.Softmax()
	out := run(t, b.Model("y"), []float32{1, 3, 2, 2})
	assert.InDeltaSlice(t, []float32{0.5, 0.5}, out, 1e-6)
}

func TestInputsAreChecked(t *testing.T) {
	b := onnx.NewBuilder("t", "x", 2)
	b.Relu()
	p, err := onnx.Compile(b.Model("y"))
	require.NoError(t, err)
	_, err = Run(p, nil)
	assert.ErrorContains(t, err, "0 inputs for a program of 1")
	_, err = Run(p, [][]float32{{1}})
	assert.ErrorContains(t, err, `input "x" has 1 elements, not 2`)
}
