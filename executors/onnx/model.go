package onnx

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/internal/osutil"
)

// maxFile bounds a model file; larger networks belong to another engine.
const maxFile = 1 << 30

// ownDomain is another name of the default operator set.
const ownDomain = "ai.onnx"

// The kinds of attributes that are read; others are kept by number only.
const (
	KindFloat  = Attribute_FLOAT
	KindInt    = Attribute_INT
	KindString = Attribute_STRING
	KindTensor = Attribute_TENSOR
	KindFloats = Attribute_FLOATS
	KindInts   = Attribute_INTS
)

// The data types that programs name. Elements are read of Float and Int64 only.
const (
	Float    = DataType_float
	Int64    = DataType_int64
	String   = DataType_string
	Bool     = DataType_bool
	Float16  = DataType_float16
	Double   = DataType_double
	BFloat16 = DataType_bfloat16
)

// NewModel is one without nodes, of a version of the default operator set.
func NewModel(opset int64) *Model {
	return &Model{IrVersion: 8, Producer: "harpagon", Opsets: []*OperatorSet{{Version: opset}}, Graph: &Graph{}}
}

// ReadFile reads a model from a file. Errors name the file.
func ReadFile(path string) (*Model, error) {
	raw, err := ReadRaw(path)
	if err != nil {
		return nil, err
	}
	m, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// ReadRaw reads the bytes of a model file.
func ReadRaw(path string) ([]byte, error) {
	raw, err := osutil.ReadFile(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("onnx: %w; check the module's model attribute", err)
	}
	return raw, nil
}

// elements is the product of the dimensions, or an error when one is negative
// or the product does not fit.
func elements(dims []int64) (int, error) {
	n := int64(1)
	for _, d := range dims {
		if d < 0 {
			return 0, fmt.Errorf("a dimension of %d", d)
		}
		if d != 0 && n > maxFile/d {
			return 0, fmt.Errorf("dimensions %v are too large", dims)
		}
		n *= d
	}
	return int(n), nil
}

// Builder writes a network layer by layer. Each method appends a node that
// takes the last output; Model ends the network.
//
//	b := onnx.NewBuilder("vehicle", "image", 3, 24, 24)
//	b.Conv(weights, bias, [4]int64{8, 3, 3, 3}, 2, 1)
//	b.Relu()
//	b.Flatten()
//	b.Gemm(w2, b2, 1152, 4)
//	os.WriteFile("vehicle.onnx", b.Model("scores").Encode(), 0o644)
type Builder struct {
	model *Model
	last  string
	count int
}

// NewBuilder starts a network with one input of the given shape per request.
func NewBuilder(name, input string, dims ...int64) *Builder {
	b := &Builder{model: NewModel(13), last: input}
	b.model.Graph.Name = name
	b.model.Graph.Inputs = []*ValueInfo{Declare(input, Float, append([]int64{-1}, dims...)...)}
	return b
}

// Conv appends a convolution: weights [M,C,kh,kw] in dims, bias [M], the same
// stride and padding in both directions.
func (b *Builder) Conv(weights, bias []float32, dims [4]int64, stride, pad int64) {
	name := b.name("conv")
	b.node("Conv", name, []*Attribute{
		{Name: "kernel_shape", Kind: KindInts, Ints: []int64{dims[2], dims[3]}},
		{Name: "strides", Kind: KindInts, Ints: []int64{stride, stride}},
		{Name: "pads", Kind: KindInts, Ints: []int64{pad, pad, pad, pad}},
	}, b.floats(name+".weight", weights, dims[:]...), b.floats(name+".bias", bias, dims[0]))
}

// Gemm appends a dense layer: weights [in,out], bias [out].
func (b *Builder) Gemm(weights, bias []float32, in, out int64) {
	name := b.name("dense")
	b.node("Gemm", name, nil, b.floats(name+".weight", weights, in, out), b.floats(name+".bias", bias, out))
}

// Relu appends a rectifier.
func (b *Builder) Relu() { b.node("Relu", b.name("relu"), nil) }

// Sigmoid appends a logistic function.
func (b *Builder) Sigmoid() { b.node("Sigmoid", b.name("sigmoid"), nil) }

// Softmax appends a softmax over the only dimension beside the batch.
func (b *Builder) Softmax() { b.node("Softmax", b.name("softmax"), nil) }

// Flatten appends a change of shape to one dimension.
func (b *Builder) Flatten() { b.node("Flatten", b.name("flatten"), nil) }

// GlobalAveragePool appends the mean over height and width.
func (b *Builder) GlobalAveragePool() { b.node("GlobalAveragePool", b.name("mean"), nil) }

// MaxPool appends a maximum over windows.
func (b *Builder) MaxPool(kernel, stride, pad int64) {
	b.node("MaxPool", b.name("pool"), []*Attribute{
		{Name: "kernel_shape", Kind: KindInts, Ints: []int64{kernel, kernel}},
		{Name: "strides", Kind: KindInts, Ints: []int64{stride, stride}},
		{Name: "pads", Kind: KindInts, Ints: []int64{pad, pad, pad, pad}},
	})
}

// Model ends the network: the last output gets the name, and its shape is
// inferred. It panics when the layers do not fit together, which is a mistake
// of the program that builds them.
func (b *Builder) Model(output string) *Model {
	m := proto.CloneOf(b.model)
	m.Graph.Nodes[len(m.Graph.Nodes)-1].Outputs = []string{output}
	m.Graph.Outputs = []*ValueInfo{{Name: output}}
	p, err := Compile(m)
	if err != nil {
		panic(fmt.Sprintf("onnx: building %s: %v", m.Graph.Name, err))
	}
	dims := []int64{-1}
	for _, d := range p.Values[p.Outputs[0]].Dims {
		dims = append(dims, int64(d))
	}
	m.Graph.Outputs[0] = Declare(output, Float, dims...)
	return m
}

func (b *Builder) name(kind string) string {
	b.count++
	return fmt.Sprintf("%s%d", kind, b.count)
}

func (b *Builder) floats(name string, data []float32, dims ...int64) string {
	b.model.Graph.Initializers = append(b.model.Graph.Initializers,
		&Tensor{Name: name, Type: Float, Dims: append([]int64(nil), dims...), Floats: data})
	return name
}

func (b *Builder) node(op, name string, attributes []*Attribute, constants ...string) {
	out := name + ".out"
	b.model.Graph.Nodes = append(b.model.Graph.Nodes, &Node{
		Name: name, Op: op, Inputs: append([]string{b.last}, constants...), Outputs: []string{out}, Attributes: attributes,
	})
	b.last = out
}
