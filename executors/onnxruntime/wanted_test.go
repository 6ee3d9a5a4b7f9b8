package onnxruntime

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/wire"
)

// TestUnusedOutputsAreNotComputed has an output that cannot be computed, and one that is no
// tensor, beside the one that is wanted.
func TestUnusedOutputsAreNotComputed(t *testing.T) {
	needs(t)
	list := &onnx.ValueInfo{Name: "list", Type: &onnx.Type{Sequence: &onnx.WrappedType{Element: &onnx.Type{Tensor: &onnx.TensorType{Element: onnx.Float}}}}}
	net := netOf(
		[]*onnx.ValueInfo{onnx.Declare("x", onnx.Float, -1, 4)},
		[]*onnx.ValueInfo{onnx.Declare("heavy", onnx.Float, -1, 7), list, onnx.Declare("y", onnx.Float, -1, 4)},
		node("Relu", "x", "y"),
		node("SequenceConstruct", "x", "list"),
		&onnx.Node{Op: "Reshape", Inputs: []string{"x", "seven"}, Outputs: []string{"heavy"}})
	net.Graph.Initializers = []*onnx.Tensor{{Name: "seven", Type: onnx.Int64, Dims: []int64{2}, Ints: []int64{-1, 7}}}
	model := executors.Model{Module: moduleOf(t, net), Batches: []int{1, 2}, Outputs: []string{"y"}}
	in, err := New(Options{}).Load(t.Context(), model)
	require.NoError(t, err)
	defer in.Close()
	require.Equal(t, []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{4}}}, in.Signature().Outputs)
	got, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromFloat32([]float32{-1, 2, -3, 4}, 4)}})
	require.NoError(t, err)
	assert.Equal(t, [][]wire.Tensor{{wire.FromFloat32([]float32{0, 2, 0, 4}, 4)}}, got)

	model.Outputs = []string{"y", "list"}
	_, err = New(Options{}).Load(t.Context(), model)
	require.ErrorContains(t, err, `output "list" is sequence(tensor(float))`)
	model.Outputs = []string{"heavy"}
	_, err = New(Options{}).Load(t.Context(), model)
	require.ErrorContains(t, err, "Reshape")
}

// TestAnInputWithADefault is fed by requests or a constant, or left out.
func TestAnInputWithADefault(t *testing.T) {
	net := netOf(
		[]*onnx.ValueInfo{onnx.Declare("x", onnx.Float, -1, 2), onnx.Declare("scale", onnx.Float, 1)},
		[]*onnx.ValueInfo{onnx.Declare("y", onnx.Float, -1, 2)},
		&onnx.Node{Op: "Mul", Inputs: []string{"x", "scale"}, Outputs: []string{"y"}})
	net.Graph.Initializers = []*onnx.Tensor{{Name: "scale", Type: onnx.Float, Dims: []int64{1}, Floats: []float32{2}}}
	x := pipelines.Binding{Name: "x", From: build.FromInput("x")}
	one := func(scale float32) wire.Tensor { return wire.FromFloat32([]float32{scale}, 1) }
	for name, c := range map[string]struct {
		feeds []pipelines.Binding
		sent  []wire.Tensor
		want  float32
	}{
		"left out": {nil, nil, 2},
		"constant": {[]pipelines.Binding{{Name: "scale", Value: 5.0}}, nil, 5},
		"fed":      {[]pipelines.Binding{{Name: "scale", From: build.FromInput("scale")}}, []wire.Tensor{one(7)}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, moduleOf(t, net, append([]pipelines.Binding{x}, c.feeds...)...), 2, func(t *testing.T, in executors.Instance) {
				item := append([]wire.Tensor{wire.FromFloat32([]float32{1, 3}, 2)}, c.sent...)
				got, err := in.Run(t.Context(), [][]wire.Tensor{item, item})
				require.NoError(t, err)
				for i := range got {
					assert.Equal(t, wire.FromFloat32([]float32{c.want, 3 * c.want}, 2), got[i][0])
				}
			})
		})
	}
}
