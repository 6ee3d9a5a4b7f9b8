package onnx

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

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
