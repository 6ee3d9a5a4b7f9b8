package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"
)

// deepest bounds messages within messages, as protobuf does in other languages.
const deepest = 100

// read reads a message, and passes over fields that are not needed here.
func read(raw []byte, into proto.Message) error {
	if err := (proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: deepest}).Unmarshal(raw, into); err != nil {
		return damaged(err)
	}
	return nil
}

func damaged(why error) error { return fmt.Errorf("onnx: damaged or not an ONNX file: %w", why) }

// decode reads a model, and checks its tensors.
func decode(raw []byte) (*Model, error) {
	m := new(Model)
	if err := read(raw, m); err != nil {
		return nil, err
	}
	if len(m.GetGraph().GetNodes()) == 0 {
		return nil, damaged(errors.New("it holds no nodes"))
	}
	if m.opset() < 0 {
		return nil, damaged(errors.New("it names no operator set"))
	}
	tensors := m.Graph.Initializers
	for _, n := range m.Graph.Nodes {
		for _, a := range n.Attributes {
			if a.Tensor != nil {
				tensors = append(tensors, a.Tensor)
			}
		}
	}
	for _, t := range tensors {
		if err := t.check(); err != nil {
			return nil, damaged(err)
		}
	}
	return m, nil
}

// opset is the version of the default operator set; -1 where there is none.
func (m *Model) opset() int64 {
	version := int64(-1)
	for _, s := range m.GetOpsets() {
		if s.Domain == "" || s.Domain == ownDomain {
			version = s.Version
		}
	}
	return version
}

// check reports whether a tensor has as many elements as its shape, of a type that is
// supported.
func (t *Tensor) check() error {
	if len(t.External) > 0 {
		return fmt.Errorf("tensor %q keeps its data in another file; save the model with its data inside", t.Name)
	}
	n, err := elements(t.Dims)
	if err != nil {
		return fmt.Errorf("tensor %q has %w", t.Name, err)
	}
	var have, size int
	switch t.Type {
	case Float:
		have, size = len(t.Floats), 4
	case Int64:
		have, size = len(t.Ints), 8
	default:
		return fmt.Errorf("tensor %q has data type %v, which is not supported; use float32 (convert the model), or engine = \"onnxruntime\"", t.Name, t.Type)
	}
	if len(t.Raw)%size != 0 {
		return fmt.Errorf("tensor %q has %d bytes of %v data", t.Name, len(t.Raw), t.Type)
	}
	if len(t.Raw) > 0 {
		have = len(t.Raw) / size
	}
	if have != n {
		return fmt.Errorf("tensor %q has %d elements for shape %v", t.Name, have, t.Dims)
	}
	return nil
}

// floats are the elements of a tensor of Float.
func (t *Tensor) floats() []float32 {
	if len(t.Raw) == 0 {
		return t.Floats
	}
	out := make([]float32, len(t.Raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Raw[4*i:]))
	}
	return out
}

// integers are the elements of a tensor of Int64.
func (t *Tensor) integers() []int64 {
	if len(t.Raw) == 0 {
		return t.Ints
	}
	out := make([]int64, len(t.Raw)/8)
	for i := range out {
		out[i] = int64(binary.LittleEndian.Uint64(t.Raw[8*i:]))
	}
	return out
}

// Declare makes the declaration of an input or output. A dimension of -1 is symbolic; without
// any it is a scalar.
func Declare(name string, element DataType, dims ...int64) *ValueInfo {
	shape := &Shape{}
	for _, d := range dims {
		if d < 0 {
			shape.Dims = append(shape.Dims, &Dimension{Value: &Dimension_Symbol{Symbol: "batch"}})
		} else {
			shape.Dims = append(shape.Dims, &Dimension{Value: &Dimension_Size{Size: d}})
		}
	}
	return &ValueInfo{Name: name, Type: &Type{Tensor: &TensorType{Element: element, Shape: shape}}}
}

// element is the type of the elements.
func (v *ValueInfo) element() DataType { return v.GetType().GetTensor().GetElement() }

// dims is the shape, with -1 for what is symbolic; nil where none is declared.
func (v *ValueInfo) dims() []int64 {
	shape := v.GetType().GetTensor().GetShape()
	if shape == nil {
		return nil
	}
	dims := make([]int64, len(shape.Dims))
	for i, d := range shape.Dims {
		dims[i] = -1
		if size, ok := d.Value.(*Dimension_Size); ok {
			dims[i] = size.Size
		}
	}
	return dims
}

// Encode is the model as the bytes of an ONNX file. It panics where a name is not UTF-8.
func (m *Model) Encode() []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("onnx: writing %s: %v", m.GetGraph().GetName(), err))
	}
	return b
}
