package onnx

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
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
	assert.True(t, proto.Equal(m, back))
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
		m := NewModel(13)
		m.Producer = rapid.String().Draw(t, "producer")
		floats := rapid.SliceOf(rapid.Float32()).Draw(t, "floats")
		ints := rapid.SliceOf(rapid.Int64()).Draw(t, "ints")
		m.Graph.Initializers = []*Tensor{
			{Name: "f", Type: Float, Dims: []int64{int64(len(floats))}, Floats: floats},
			{Name: "i", Type: Int64, Dims: []int64{int64(len(ints))}, Ints: ints},
		}
		m.Graph.Nodes = []*Node{{Op: "Relu", Inputs: []string{"x", ""}, Outputs: []string{"y"}, Attributes: []*Attribute{
			{Name: "a", Kind: KindInts, Ints: rapid.SliceOfN(rapid.Int64(), 1, 4).Draw(t, "attribute")},
			{Name: "b", Kind: KindFloat, Float: 1.5},
			{Name: "c", Kind: KindString, Text: []byte("VALID")},
		}}}
		m.Graph.Inputs = []*ValueInfo{Declare("x", Float, -1, 3)}
		back, err := decode(m.Encode())
		require.NoError(t, err)
		assert.True(t, proto.Equal(m, back))
		assert.Equal(t, m.Graph.Inputs[0].dims(), back.Graph.Inputs[0].dims())
	})
}

// setDim changes the shape of the input.
func setDim(m *Model, at int, to int64) {
	in := m.Graph.Inputs[0]
	dims := in.dims()
	dims[at] = to
	m.Graph.Inputs[0] = Declare(in.Name, in.element(), dims...)
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
			with(func(m *Model) { m.Opsets[0].Version = 999 }),
			[]string{"operator set 999", "7 to 24 are supported", "onnxruntime"},
		},
		"operator set of the past": {
			with(func(m *Model) { m.Opsets[0].Version = 6 }),
			[]string{"operator set 6"},
		},
		"domain": {
			with(func(m *Model) { m.Graph.Nodes[1].Domain = "com.example" }),
			[]string{"com.example.Relu"},
		},
		"data type": {
			with(func(m *Model) { m.Graph.Inputs[0].Type.Tensor.Element = 10 }),
			[]string{`"image"`, "float16"},
		},
		"group": {
			with(func(m *Model) {
				m.Graph.Nodes[0].Attributes = append(m.Graph.Nodes[0].Attributes, &Attribute{Name: "group", Kind: KindInt, Int: 3})
			}),
			[]string{`"conv1"`, "group 3"},
		},
		"channels": {
			with(func(m *Model) { setDim(m, 1, 1) }),
			[]string{`"conv1"`, "take 3 channels but its input has 1"},
		},
		"dense": {
			with(func(m *Model) { setDim(m, 2, 64) }),
			[]string{`"dense5"`, "take 16 elements but its input has"},
		},
		"window": {
			with(func(m *Model) { setDim(m, 2, 1) }),
			[]string{`"pool3"`, "the output would have shape"},
		},
		"fixed batch": {
			with(func(m *Model) { setDim(m, 0, 4) }),
			[]string{"fixed batch size of 4"},
		},
		"dynamic image": {
			with(func(m *Model) { setDim(m, 2, -1) }),
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

// TestRawTensors are those of most files; what holds no tensor for this package is refused,
// wherever it is.
func TestRawTensors(t *testing.T) {
	m := small()
	floats, ints := &Tensor{Name: "f", Type: Float, Dims: []int64{2}, Raw: []byte{0, 0, 128, 63, 0, 0, 0, 192}}, &Tensor{Name: "i", Type: Int64, Dims: []int64{2}, Raw: []byte{1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255}}
	m.Graph.Initializers = append(m.Graph.Initializers, floats, ints)
	back, err := decode(m.Encode())
	require.NoError(t, err)
	n := len(back.Graph.Initializers)
	assert.Equal(t, []float32{1, -2}, back.Graph.Initializers[n-2].floats())
	assert.Equal(t, []int64{1, -1}, back.Graph.Initializers[n-1].integers())
	for want, bad := range map[string]*Tensor{
		"4 elements for shape [2 3]":    {Name: "bad", Type: Float, Dims: []int64{2, 3}, Raw: make([]byte, 16)},
		"has 7 bytes of int64 data":     {Name: "bad", Type: Int64, Dims: []int64{1}, Raw: make([]byte, 7)},
		"keeps its data in another":     {Name: "bad", Type: Float, External: []*Entry{{Key: "location", Value: "x"}}},
		"data type bfloat16, which":     {Name: "bad", Type: BFloat16, Dims: []int64{1}, Raw: make([]byte, 2)},
		"data type 99, which is not":    {Name: "bad", Type: 99},
		"has a dimension of -1":         {Name: "bad", Type: Float, Dims: []int64{-1}},
		"dimensions [1073741824 8] are": {Name: "bad", Type: Float, Dims: []int64{1 << 30, 8}},
	} {
		initializer, attribute := small(), small()
		initializer.Graph.Initializers = append(initializer.Graph.Initializers, bad)
		attribute.Graph.Nodes[0].Attributes = append(attribute.Graph.Nodes[0].Attributes, &Attribute{Name: "value", Kind: KindTensor, Tensor: bad})
		for _, m := range []*Model{initializer, attribute} {
			_, err := decode(m.Encode())
			require.ErrorContains(t, err, `tensor "bad"`)
			require.ErrorContains(t, err, want)
		}
	}
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
