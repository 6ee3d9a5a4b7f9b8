package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// decode reads a model. A damaged file is an error that says which part of it
// could not be read; fields that are not needed here are passed over.
func decode(raw []byte) (*Model, error) {
	m := &Model{Opset: -1}
	err := fields(raw, func(f field) error {
		switch f.num {
		case 1:
			m.IRVersion = int64(f.varint)
		case 2:
			m.Producer = string(f.bytes)
		case 7:
			return f.message("graph", func(b []byte) error { return decodeGraph(b, &m.Graph) })
		case 8:
			return f.message("operator set", func(b []byte) error { return decodeOpset(b, m) })
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("onnx: damaged or not an ONNX file: %w", err)
	}
	if len(m.Graph.Nodes) == 0 {
		return nil, errors.New("onnx: damaged or not an ONNX file: it holds no nodes")
	}
	if m.Opset < 0 {
		return nil, errors.New("onnx: damaged or not an ONNX file: it names no operator set")
	}
	return m, nil
}

func decodeOpset(raw []byte, m *Model) error {
	domain, version := "", int64(0)
	err := fields(raw, func(f field) error {
		switch f.num {
		case 1:
			domain = string(f.bytes)
		case 2:
			version = int64(f.varint)
		}
		return nil
	})
	if domain == "" || domain == "ai.onnx" {
		m.Opset = version
	}
	return err
}

func decodeGraph(raw []byte, g *Graph) error {
	return fields(raw, func(f field) error {
		switch f.num {
		case 1:
			var n Node
			err := f.message("node", func(b []byte) error { return decodeNode(b, &n) })
			g.Nodes = append(g.Nodes, n)
			return err
		case 2:
			g.Name = string(f.bytes)
		case 5:
			var t Tensor
			err := f.message("initializer", func(b []byte) error { return decodeTensor(b, &t) })
			g.Initializers = append(g.Initializers, t)
			return err
		case 11, 12:
			var v ValueInfo
			err := f.message("input or output", func(b []byte) error { return decodeValueInfo(b, &v) })
			if f.num == 11 {
				g.Inputs = append(g.Inputs, v)
			} else {
				g.Outputs = append(g.Outputs, v)
			}
			return err
		}
		return nil
	})
}

func decodeNode(raw []byte, n *Node) error {
	return fields(raw, func(f field) error {
		switch f.num {
		case 1:
			n.Inputs = append(n.Inputs, string(f.bytes))
		case 2:
			n.Outputs = append(n.Outputs, string(f.bytes))
		case 3:
			n.Name = string(f.bytes)
		case 4:
			n.Op = string(f.bytes)
		case 5:
			var a Attribute
			err := f.message("attribute", func(b []byte) error { return decodeAttribute(b, &a) })
			n.Attributes = append(n.Attributes, a)
			return err
		case 7:
			n.Domain = string(f.bytes)
		}
		return nil
	})
}

func decodeAttribute(raw []byte, a *Attribute) error {
	return fields(raw, func(f field) error {
		var err error
		switch f.num {
		case 1:
			a.Name = string(f.bytes)
		case 2:
			a.Float = math.Float32frombits(f.fixed32)
		case 3:
			a.Int = int64(f.varint)
		case 4:
			a.Text = string(f.bytes)
		case 5:
			a.Tensor = &Tensor{}
			err = f.message("tensor", func(b []byte) error { return decodeTensor(b, a.Tensor) })
		case 7:
			a.Floats, err = f.floats(a.Floats)
		case 8:
			a.Ints, err = f.ints(a.Ints)
		case 20:
			a.Kind = AttributeKind(f.varint)
		}
		return err
	})
}

func decodeTensor(raw []byte, t *Tensor) error {
	var data []byte
	hasRaw, external := false, false
	err := fields(raw, func(f field) error {
		var err error
		switch f.num {
		case 1:
			t.Dims, err = f.ints(t.Dims)
		case 2:
			t.Type = DataType(f.varint)
		case 4:
			t.Floats, err = f.floats(t.Floats)
		case 7:
			t.Ints, err = f.ints(t.Ints)
		case 8:
			t.Name = string(f.bytes)
		case 9:
			data, hasRaw = f.bytes, true
		case 13:
			external = true
		}
		return err
	})
	if err != nil {
		return err
	}
	if external {
		return fmt.Errorf("tensor %q keeps its data in another file; save the model with its data inside", t.Name)
	}
	n, err := elements(t.Dims)
	if err != nil {
		return fmt.Errorf("tensor %q has %w", t.Name, err)
	}
	if hasRaw {
		if err := t.fill(data); err != nil {
			return err
		}
	}
	return t.check(n)
}

// fill reads raw little-endian data of the two types that are supported.
func (t *Tensor) fill(data []byte) error {
	switch t.Type {
	case Float:
		if len(data)%4 != 0 {
			return fmt.Errorf("tensor %q has %d bytes of float data", t.Name, len(data))
		}
		t.Floats = make([]float32, len(data)/4)
		for i := range t.Floats {
			t.Floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	case Int64:
		if len(data)%8 != 0 {
			return fmt.Errorf("tensor %q has %d bytes of int64 data", t.Name, len(data))
		}
		t.Ints = make([]int64, len(data)/8)
		for i := range t.Ints {
			t.Ints[i] = int64(binary.LittleEndian.Uint64(data[8*i:]))
		}
	}
	return nil
}

func (t *Tensor) check(n int) error {
	have := 0
	switch t.Type {
	case Float:
		have = len(t.Floats)
	case Int64:
		have = len(t.Ints)
	default:
		return fmt.Errorf("tensor %q has data type %v, which is not supported; use float32 (convert the model), or engine = \"onnxruntime\"", t.Name, t.Type)
	}
	if have != n {
		return fmt.Errorf("tensor %q has %d elements for shape %v", t.Name, have, t.Dims)
	}
	return nil
}

func decodeValueInfo(raw []byte, v *ValueInfo) error {
	return fields(raw, func(f field) error {
		switch f.num {
		case 1:
			v.Name = string(f.bytes)
		case 2:
			return f.message("type", func(b []byte) error {
				return fields(b, func(f field) error {
					if f.num != 1 {
						return nil
					}
					return f.message("tensor type", func(b []byte) error { return decodeTensorType(b, v) })
				})
			})
		}
		return nil
	})
}

func decodeTensorType(raw []byte, v *ValueInfo) error {
	return fields(raw, func(f field) error {
		switch f.num {
		case 1:
			v.Type = DataType(f.varint)
		case 2:
			if v.Dims == nil {
				v.Dims = []int64{} // a shape without dimensions is that of a scalar
			}
			return f.message("shape", func(b []byte) error {
				return fields(b, func(f field) error {
					if f.num != 1 {
						return nil
					}
					dim := int64(-1)
					err := f.message("dimension", func(b []byte) error {
						return fields(b, func(f field) error {
							if f.num == 1 {
								dim = int64(f.varint)
							}
							return nil
						})
					})
					v.Dims = append(v.Dims, dim)
					return err
				})
			})
		}
		return nil
	})
}

// field is one field of a message on the wire.
type field struct {
	num     protowire.Number
	kind    protowire.Type
	varint  uint64
	fixed32 uint32
	bytes   []byte
}

// fields calls f for each field of a message.
func fields(raw []byte, f func(field) error) error {
	for len(raw) > 0 {
		num, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		v := field{num: num, kind: kind}
		switch kind {
		case protowire.VarintType:
			v.varint, n = protowire.ConsumeVarint(raw)
		case protowire.Fixed32Type:
			v.fixed32, n = protowire.ConsumeFixed32(raw)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(raw)
		default:
			n = protowire.ConsumeFieldValue(num, kind, raw)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		raw = raw[n:]
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// message reads a nested message and names it in errors.
func (f field) message(name string, read func([]byte) error) error {
	if f.kind != protowire.BytesType {
		return fmt.Errorf("%s: not a message", name)
	}
	if err := read(f.bytes); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// floats reads a repeated float, packed or not.
func (f field) floats(to []float32) ([]float32, error) {
	if f.kind == protowire.Fixed32Type {
		return append(to, math.Float32frombits(f.fixed32)), nil
	}
	if f.kind != protowire.BytesType || len(f.bytes)%4 != 0 {
		return nil, errors.New("floats of a wrong size")
	}
	for b := f.bytes; len(b) > 0; b = b[4:] {
		to = append(to, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return to, nil
}

// ints reads a repeated int64, packed or not.
func (f field) ints(to []int64) ([]int64, error) {
	if f.kind == protowire.VarintType {
		return append(to, int64(f.varint)), nil
	}
	if f.kind != protowire.BytesType {
		return nil, errors.New("integers of a wrong type")
	}
	for b := f.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		to, b = append(to, int64(v)), b[n:]
	}
	return to, nil
}

// Encode is the model as the bytes of an ONNX file.
func (m *Model) Encode() []byte {
	var b []byte
	b = varint(b, 1, uint64(m.IRVersion))
	b = text(b, 2, m.Producer)
	b = message(b, 7, m.Graph.encode())
	return message(b, 8, varint(nil, 2, uint64(m.Opset)))
}

func (g *Graph) encode() []byte {
	var b []byte
	for i := range g.Nodes {
		b = message(b, 1, g.Nodes[i].encode())
	}
	b = text(b, 2, g.Name)
	for i := range g.Initializers {
		b = message(b, 5, g.Initializers[i].encode())
	}
	for i := range g.Inputs {
		b = message(b, 11, g.Inputs[i].encode())
	}
	for i := range g.Outputs {
		b = message(b, 12, g.Outputs[i].encode())
	}
	return b
}

func (n *Node) encode() []byte {
	var b []byte
	for _, name := range n.Inputs {
		b = message(b, 1, []byte(name))
	}
	for _, name := range n.Outputs {
		b = message(b, 2, []byte(name))
	}
	b = text(b, 3, n.Name)
	b = text(b, 4, n.Op)
	for i := range n.Attributes {
		b = message(b, 5, n.Attributes[i].encode())
	}
	return text(b, 7, n.Domain)
}

func (a *Attribute) encode() []byte {
	b := text(nil, 1, a.Name)
	switch a.Kind {
	case KindFloat:
		b = protowire.AppendTag(b, 2, protowire.Fixed32Type)
		b = protowire.AppendFixed32(b, math.Float32bits(a.Float))
	case KindInt:
		b = protowire.AppendTag(b, 3, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(a.Int))
	case KindString:
		b = message(b, 4, []byte(a.Text))
	case KindTensor:
		b = message(b, 5, a.Tensor.encode())
	case KindFloats:
		b = message(b, 7, floatBytes(a.Floats))
	case KindInts:
		b = packed(b, 8, a.Ints)
	}
	return varint(b, 20, uint64(a.Kind))
}

func (t *Tensor) encode() []byte {
	b := packed(nil, 1, t.Dims)
	b = varint(b, 2, uint64(t.Type))
	b = text(b, 8, t.Name)
	if t.Type == Int64 {
		raw := make([]byte, 0, 8*len(t.Ints))
		for _, v := range t.Ints {
			raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
		}
		return message(b, 9, raw)
	}
	return message(b, 9, floatBytes(t.Floats))
}

func (v *ValueInfo) encode() []byte {
	var shape []byte
	for _, d := range v.Dims {
		if d < 0 {
			shape = message(shape, 1, text(nil, 2, "batch"))
			continue
		}
		dim := protowire.AppendTag(nil, 1, protowire.VarintType)
		shape = message(shape, 1, protowire.AppendVarint(dim, uint64(d)))
	}
	tensor := message(varint(nil, 1, uint64(v.Type)), 2, shape)
	return message(text(nil, 1, v.Name), 2, message(nil, 1, tensor))
}

func varint(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

func text(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return message(b, num, []byte(s))
}

func message(b []byte, num protowire.Number, m []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m)
}

func packed(b []byte, num protowire.Number, values []int64) []byte {
	if len(values) == 0 {
		return b
	}
	var body []byte
	for _, v := range values {
		body = protowire.AppendVarint(body, uint64(v))
	}
	return message(b, num, body)
}

func floatBytes(values []float32) []byte {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}
