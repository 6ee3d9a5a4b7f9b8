package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
)

func small() *Model {
	b := NewBuilder("small", "image", 3, 8, 8)
	b.Conv(make([]float32, 4*3*3*3), make([]float32, 4), [4]int64{4, 3, 3, 3}, 2, 1)
	b.Relu()
	b.MaxPool(2, 2, 0)
	b.Flatten()
	b.Gemm(make([]float32, 16*5), make([]float32, 5), 16, 5)
	b.Softmax()
	return b.Model("scores")
}

func TestRoundTrip(t *testing.T) {
	m := small()
	back, err := decode(m.Encode())
	require.NoError(t, err)
	assert.Equal(t, m, back)
}

func TestSignature(t *testing.T) {
	sig, err := Signature(small())
	require.NoError(t, err)
	assert.Equal(t, pipelines.Signature{
		Inputs:  []pipelines.Port{{Name: "image", Datatype: "FP32", Shape: []int64{3, 8, 8}}},
		Outputs: []pipelines.Port{{Name: "scores", Datatype: "FP32", Shape: []int64{5}}},
	}, sig)
}

func TestRoundTripOfAnyTensors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &Model{IRVersion: 8, Producer: rapid.String().Draw(t, "producer"), Opset: 13}
		floats := rapid.SliceOf(rapid.Float32()).Draw(t, "floats")
		ints := rapid.SliceOf(rapid.Int64()).Draw(t, "ints")
		m.Graph.Initializers = []Tensor{
			{Name: "f", Type: Float, Dims: []int64{int64(len(floats))}, Floats: floats},
			{Name: "i", Type: Int64, Dims: []int64{int64(len(ints))}, Ints: ints},
		}
		m.Graph.Nodes = []Node{{Op: "Relu", Inputs: []string{"x", ""}, Outputs: []string{"y"}, Attributes: []Attribute{
			{Name: "a", Kind: KindInts, Ints: rapid.SliceOfN(rapid.Int64(), 1, 4).Draw(t, "attribute")},
			{Name: "b", Kind: KindFloat, Float: 1.5},
			{Name: "c", Kind: KindString, Text: "VALID"},
		}}}
		m.Graph.Inputs = []ValueInfo{{Name: "x", Type: Float, Dims: []int64{-1, 3}}}
		back, err := decode(m.Encode())
		require.NoError(t, err)
		assert.Equal(t, m.Encode(), back.Encode())
		assert.Equal(t, m.Graph.Nodes, back.Graph.Nodes)
		assert.Equal(t, m.Graph.Inputs, back.Graph.Inputs)
	})
}

func TestErrorsNameWhatIsWrong(t *testing.T) {
	with := func(change func(m *Model)) *Model {
		m := small()
		change(m)
		return m
	}
	for name, c := range map[string]struct {
		model *Model
		want  []string
	}{
		"operator": {
			with(func(m *Model) { m.Graph.Nodes[1].Op = "HardSwish" }),
			[]string{`"relu2"`, `"HardSwish" is not supported`, "onnxruntime"},
		},
		"operator set of the future": {
			with(func(m *Model) { m.Opset = 999 }),
			[]string{"operator set 999", "7 to 24 are supported", "onnxruntime"},
		},
		"operator set of the past": {
			with(func(m *Model) { m.Opset = 6 }),
			[]string{"operator set 6"},
		},
		"domain": {
			with(func(m *Model) { m.Graph.Nodes[1].Domain = "com.example" }),
			[]string{"com.example.Relu"},
		},
		"data type": {
			with(func(m *Model) { m.Graph.Inputs[0].Type = 10 }),
			[]string{`"image"`, "float16"},
		},
		"group": {
			with(func(m *Model) {
				m.Graph.Nodes[0].Attributes = append(m.Graph.Nodes[0].Attributes, Attribute{Name: "group", Kind: KindInt, Int: 3})
			}),
			[]string{`"conv1"`, "group 3"},
		},
		"channels": {
			with(func(m *Model) { m.Graph.Inputs[0].Dims[1] = 1 }),
			[]string{`"conv1"`, "take 3 channels but its input has 1"},
		},
		"dense": {
			with(func(m *Model) { m.Graph.Inputs[0].Dims[2] = 64 }),
			[]string{`"dense5"`, "take 16 elements but its input has"},
		},
		"window": {
			with(func(m *Model) { m.Graph.Inputs[0].Dims[2] = 1 }),
			[]string{`"pool3"`, "the output would have shape"},
		},
		"fixed batch": {
			with(func(m *Model) { m.Graph.Inputs[0].Dims[0] = 4 }),
			[]string{"fixed batch size of 4"},
		},
		"dynamic image": {
			with(func(m *Model) { m.Graph.Inputs[0].Dims[2] = -1 }),
			[]string{"dimension 2 of input \"image\" is dynamic"},
		},
		"unknown tensor": {
			with(func(m *Model) { m.Graph.Nodes[2].Inputs[0] = "nothing" }),
			[]string{`"nothing" is not computed before`},
		},
		"no such output": {
			with(func(m *Model) { m.Graph.Outputs[0].Name = "labels" }),
			[]string{`output "labels" is not computed`},
		},
	} {
		_, err := Compile(c.model)
		for _, want := range c.want {
			assert.ErrorContains(t, err, want, name)
		}
	}
}

func TestDamagedFiles(t *testing.T) {
	raw := small().Encode()
	for cut := range raw {
		m, err := decode(raw[:cut])
		if err == nil {
			_, err = Compile(m)
		}
		require.Error(t, err, "a file cut at byte %d of %d", cut, len(raw))
	}
	path := filepath.Join(t.TempDir(), "broken.onnx")
	require.NoError(t, os.WriteFile(path, []byte("GIF89a not a network"), 0o600))
	_, err := Load(path)
	assert.ErrorContains(t, err, path)
	assert.ErrorContains(t, err, "damaged or not an ONNX file")
	_, err = Load(filepath.Join(t.TempDir(), "missing.onnx"))
	assert.ErrorContains(t, err, "check the module's model attribute")
}

func TestTensorThatIsTooShort(t *testing.T) {
	m := small()
	m.Graph.Initializers[0].Floats = m.Graph.Initializers[0].Floats[1:]
	_, err := decode(m.Encode())
	assert.ErrorContains(t, err, `tensor "conv1.weight" has 107 elements for shape [4 3 3 3]`)
}

func FuzzDecode(f *testing.F) {
	f.Add(small().Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testkit.WatchStalls(t, len(raw))()
		m, err := decode(raw)
		if err != nil {
			return
		}
		p, err := Compile(m)
		if err != nil {
			return
		}
		for _, s := range p.Steps {
			if p.Values[s.Output].Len() <= 0 {
				t.Fatalf("step %s yields nothing: %s", s.Node, p.Describe())
			}
		}
		if _, err := decode(m.Encode()); err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
	})
}
