package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// laid is the layout of a graph for a module.
func laid(t *testing.T, version int64, g *Graph, m pipelines.Module) (Layout, error) {
	t.Helper()
	net := NewModel(17)
	net.IrVersion, net.Graph = version, g
	if g.Nodes == nil {
		g.Nodes = []*Node{{Op: "Identity", Inputs: []string{"x"}, Outputs: []string{"y"}}}
	}
	d, err := declared(net.Encode())
	require.NoError(t, err)
	return d.Layout(m)
}

func symbolic(name string, element DataType, symbol string, dims ...int64) *ValueInfo {
	v := Declare(name, element, append([]int64{-1}, dims...)...)
	v.Type.Tensor.Shape.Dims[0] = &Dimension{Value: &Dimension_Symbol{Symbol: symbol}}
	return v
}

func TestInputsWithDefaults(t *testing.T) {
	graph := func() *Graph {
		return &Graph{
			Inputs:       []*ValueInfo{Declare("x", Float, -1, 4), Declare("scale", Float, 1)},
			Outputs:      []*ValueInfo{Declare("y", Float, -1, 4)},
			Initializers: []*Tensor{{Name: "scale", Type: Float, Dims: []int64{1}, Floats: []float32{2}}},
		}
	}
	x := pipelines.Binding{Name: "x", From: pipelines.Ref{Port: "x"}}
	fed := pipelines.Module{Inputs: []pipelines.Binding{x, {Name: "scale", From: pipelines.Ref{Port: "scale"}}}}
	l, err := laid(t, 8, graph(), fed)
	require.NoError(t, err)
	require.Len(t, l.Signature.Inputs, 2)
	assert.Equal(t, pipelines.Port{Name: "scale", Datatype: "FP32", Shape: []int64{1}}, l.Signature.Inputs[1])
	assert.Equal(t, []int{0, pipelines.NoBatchAxis}, l.In, "what has a default has no batch")

	l, err = laid(t, 8, graph(), pipelines.Module{Inputs: []pipelines.Binding{x}})
	require.NoError(t, err)
	assert.Len(t, l.Signature.Inputs, 1, "left out, the default is taken")

	l, err = laid(t, 3, graph(), fed)
	require.NoError(t, err)
	assert.Len(t, l.Signature.Inputs, 1, "it is a constant in older files")
}

func TestOutputsThatAreNoTensors(t *testing.T) {
	float := &Type{Tensor: &TensorType{Element: Float}}
	g := &Graph{
		Inputs: []*ValueInfo{Declare("x", Float, -1, 4)},
		Outputs: []*ValueInfo{
			Declare("label", Int64, -1),
			{Name: "maps", Type: &Type{Sequence: &WrappedType{Element: &Type{Map: &MapType{Key: Int64, Value: float}}}}},
			{Name: "list", Type: &Type{Sequence: &WrappedType{Element: float}}},
			{Name: "maybe", Type: &Type{Optional: &WrappedType{Element: float}}},
			{Name: "thin", Type: &Type{Sparse: &TensorType{Element: Float}}},
			Declare("complex", DataType_complex64, -1),
			{Name: "unknown"},
		},
	}
	l, err := laid(t, 8, g, pipelines.Module{})
	require.NoError(t, err)
	assert.Equal(t, []pipelines.Port{{Name: "label", Datatype: "INT64", Shape: []int64{}}, {Name: "unknown"}}, l.Signature.Outputs)
	for name, want := range map[string]string{
		"maps":  "is sequence(map(int64, tensor(float))), and no tensor; export the model with options={\"zipmap\": False}",
		"list":  "is sequence(tensor(float)), and no tensor; export the model with a tensor",
		"maybe": "is optional(tensor(float))", "thin": "is sparse_tensor(float)",
		"complex": "is tensor(complex64), which the Open Inference Protocol has no datatype for",
	} {
		assert.Contains(t, l.Signature.Unusable[name], want)
		_, err := l.Only([]string{"label", name})
		assert.ErrorContains(t, err, "output \""+name+"\" is ")
	}
	only, err := l.Only([]string{"label"})
	require.NoError(t, err)
	assert.Len(t, only.Signature.Outputs, 1)
	assert.False(t, only.Whole)
	_, err = l.Only([]string{"lable"})
	require.ErrorContains(t, err, `no output "lable"`)

	g.Inputs = append(g.Inputs, &ValueInfo{Name: "o", Type: &Type{Optional: &WrappedType{Element: float}}})
	_, err = laid(t, 8, g, pipelines.Module{})
	require.ErrorContains(t, err, `input "o" is no tensor with a shape and a datatype of the Open Inference Protocol (it is optional(tensor(float))`)
}

func TestOutputsThatMayHaveNoBatch(t *testing.T) {
	for name, c := range map[string]struct {
		in, out *ValueInfo
		want    string
	}{
		"the same name":            {symbolic("x", Float, "N", 4), symbolic("y", Float, "N", 4), ""},
		"another name":             {symbolic("x", Float, "N", 4), symbolic("y", Float, "found", 4), `has "found" rows`},
		"a name without meaning":   {symbolic("x", Float, "N", 4), symbolic("y", Float, "unk__7", 4), ""},
		"a number without meaning": {symbolic("x", Float, "p2o.DynamicDimension.0", 4), symbolic("y", Float, "p2o.DynamicDimension.3", 4), ""},
		"no name":                  {symbolic("x", Float, "", 4), symbolic("y", Float, "found", 4), ""},
		"always one":               {symbolic("x", Float, "N", 4), Declare("y", Float, 1, 4), "has 1 rows whatever the batch"},
		"both fixed":               {Declare("x", Float, 8, 4), Declare("y", Float, 8, 4), ""},
		"fixed differently":        {Declare("x", Float, 8, 4), Declare("y", Float, 1, 4), "and its inputs a batch of 8"},
	} {
		t.Run(name, func(t *testing.T) {
			graph := func() *Graph { return &Graph{Inputs: []*ValueInfo{c.in}, Outputs: []*ValueInfo{c.out}} }
			l, err := laid(t, 8, graph(), pipelines.Module{})
			require.NoError(t, err)
			if c.want == "" {
				assert.Empty(t, l.Signature.Doubts)
			} else {
				assert.Contains(t, l.Signature.Doubts["y"], c.want)
			}
			l, err = laid(t, 8, graph(), pipelines.Module{BatchAxis: map[string]int{"y": 0}})
			require.NoError(t, err)
			assert.Empty(t, l.Signature.Doubts, "the module declares what they are")
		})
	}
}

func TestDataOutsideOfTheFolder(t *testing.T) {
	at := func(file string) []byte { return nested(5, nested(13, named(1, "location"), named(2, file))) }
	model := func(file string) string {
		return kept(t, nested(1), at(file), declares(11, "x", 1, 0, 3), declares(12, "y", 1, 0, 3))
	}
	_, err := ReadDeclaration(model("../weights"))
	require.ErrorContains(t, err, "not in its own folder")
	path := model("weights")
	_, err = ReadDeclaration(path)
	require.ErrorContains(t, err, "weights, which cannot be read")
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "weights"), nil, 0o600))
	_, err = ReadDeclaration(path)
	require.NoError(t, err)
}

func TestPrune(t *testing.T) {
	node := func(op, out string, in ...string) *Node { return &Node{Op: op, Inputs: in, Outputs: []string{out}} }
	net := NewModel(17)
	net.Graph = &Graph{
		Inputs: []*ValueInfo{Declare("x", Float, -1, 4)}, Outputs: []*ValueInfo{Declare("y", Float, -1, 4), Declare("z", Float, -1, 4)},
		Nodes: []*Node{node("Relu", "a", "x"), node("Tanh", "b", "x"), node("Sigmoid", "y", "a"), node("Add", "z", "a", "b")},
	}
	ops := func(outputs ...string) (all []string) {
		raw, err := Prune(net.Encode(), outputs)
		require.NoError(t, err)
		m, err := decode(raw)
		require.NoError(t, err)
		assert.Len(t, m.Graph.Outputs, len(outputs))
		for _, n := range m.Graph.Nodes {
			all = append(all, n.Op)
		}
		return all
	}
	assert.Equal(t, []string{"Relu", "Sigmoid"}, ops("y"))
	assert.Equal(t, []string{"Relu", "Tanh", "Add"}, ops("z"))
	raw, err := Prune(net.Encode(), []string{"y", "z"})
	require.NoError(t, err)
	assert.Equal(t, net.Encode(), raw, "what is left is as it was")

	// A graph within a node takes what is around it.
	inner := nested(6, nested(1, named(1, "b"), named(2, "i")), nested(12, named(1, "a")))
	with := nested(7, nested(1, named(1, "x"), named(2, "a")), nested(1, named(1, "x"), named(2, "b")), nested(1, named(1, "x"), named(2, "c")),
		nested(1, named(1, "x"), named(2, "y"), nested(5, inner)), nested(12, named(1, "y")))
	pruned, err := Prune(with, []string{"y"})
	require.NoError(t, err)
	var o Outline
	require.NoError(t, read(pruned, &o))
	require.Len(t, o.Graph.Nodes, 3)
	_, err = Prune([]byte("no model"), nil)
	require.Error(t, err)
}

// FuzzPrune takes any file apart without a panic, and leaves one that can be read.
func FuzzPrune(f *testing.F) {
	f.Add(nested(7, nested(1, named(1, "x"), named(2, "y")), nested(12, named(1, "y"))), "y")
	f.Add(nested(7, nested(12, named(1, "y")), nested(12, named(1, "z"))), "z")
	f.Fuzz(func(t *testing.T, raw []byte, output string) {
		pruned, err := Prune(raw, []string{output})
		if err != nil {
			return
		}
		var o Outline
		require.NoError(t, read(pruned, &o))
		for _, v := range o.GetGraph().GetOutputs() {
			require.Equal(t, output, v.Name)
		}
	})
}

// Which input keeps state, and where its batch is, follows from names and from what the file leaves open.
func TestStateIsFoundByName(t *testing.T) {
	x := pipelines.Binding{Name: "x", From: pipelines.Ref{Port: "x"}}
	rnn := func(in, out string, dims ...int64) *Graph {
		return &Graph{
			Inputs:  []*ValueInfo{Declare("x", Float, -1, 4), Declare(in, Float, dims...)},
			Outputs: []*ValueInfo{Declare("y", Float, -1, 4), Declare(out, Float, dims...)},
		}
	}
	for _, names := range [][2]string{
		{"state", "stateN"}, {"h", "hn"}, {"X", "X_out"}, {"X_in", "X_out"}, {"h", "h_next"}, {"h", "new_h"},
		{"past.0.key", "present.0.key"}, {"past_key_values.1.value", "present.1.value"}, {"past_x", "present_x"},
	} {
		l, err := laid(t, 8, rnn(names[0], names[1], 2, -1, 128), pipelines.Module{State: true, Inputs: []pipelines.Binding{x}})
		require.NoError(t, err)
		require.Equal(t, pipelines.Port{Name: names[0], Datatype: "FP32", Shape: []int64{2, 128}, Loop: names[1]}, l.Signature.Inputs[1])
		assert.Equal(t, []int{0, 1}, l.In)
		assert.Equal(t, []int{0, 1}, l.Out, "the batch of what goes back is where it comes from")
		assert.Empty(t, l.Signature.Doubts)
		only, err := l.Only([]string{"y"})
		require.NoError(t, err)
		assert.Len(t, only.Signature.Outputs, 2, "state is computed whichever outputs are requested")

		l, err = laid(t, 8, rnn(names[0], names[1], 2, -1, 128), pipelines.Module{Inputs: []pipelines.Binding{x}})
		require.NoError(t, err)
		assert.Empty(t, l.Signature.Loops(), "the module does not declare state")
	}
	state := pipelines.Module{State: true, Inputs: []pipelines.Binding{x}}
	l, err := laid(t, 8, rnn("h", "z", -1, 8), state)
	require.NoError(t, err)
	assert.Empty(t, l.Signature.Loops())

	paired := state
	paired.Loops = map[string]string{"h": "z"}
	l, err = laid(t, 8, rnn("h", "z", 2, -1, 8), paired)
	require.NoError(t, err)
	assert.Equal(t, pipelines.Port{Name: "h", Datatype: "FP32", Shape: []int64{2, 8}, Loop: "z"}, l.Signature.Inputs[1])
	assert.Empty(t, paired.UnknownLoop(l.Signature))
	l, err = laid(t, 8, rnn("h", "hn", -1, 8), paired)
	require.NoError(t, err)
	assert.Empty(t, l.Signature.Loops(), "what is paired takes the place of names")
	assert.Contains(t, paired.UnknownLoop(l.Signature), `it has no input "h" with an output "z"`)

	fed := pipelines.Module{State: true, Inputs: []pipelines.Binding{x, {Name: "h", From: pipelines.Ref{Port: "h"}}}}
	l, err = laid(t, 8, rnn("h", "hn", -1, 8), fed)
	require.NoError(t, err)
	assert.Empty(t, l.Signature.Loops(), "what is fed is no state")

	_, err = laid(t, 8, rnn("past.k", "present.k", -1, -1, 8), state)
	require.ErrorContains(t, err, `input "past.k" keeps state, of a shape [-1 -1 8] that varies beside the batch (dimension 0)`)

	state.BatchAxis = map[string]int{"h": 1}
	l, err = laid(t, 8, rnn("h", "hn", 1, 1, 8), state)
	require.NoError(t, err)
	assert.Equal(t, []int64{1, 8}, l.Signature.Inputs[1].Shape)
	assert.Equal(t, 1, l.Out[1])
}
