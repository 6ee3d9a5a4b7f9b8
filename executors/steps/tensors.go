package steps

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func fp32(name string, shape ...int64) pipelines.Port {
	if shape == nil {
		shape = []int64{}
	}
	return pipelines.Port{Name: name, Datatype: "FP32", Shape: shape}
}

// blank is an FP32 tensor of zeros.
func blank(shape ...int64) wire.Tensor {
	if shape == nil {
		shape = []int64{}
	}
	return wire.Tensor{Datatype: "FP32", Shape: shape, Data: make([]byte, 4*count(shape))}
}

func count(shape []int64) int {
	n := 1
	for _, d := range shape {
		n *= int(d)
	}
	return n
}

// at reads element i of FP32 data.
func at(data []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}

// put writes element i of FP32 data.
func put(data []byte, i int, x float32) {
	binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(x))
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// maxConcat bounds the inputs of Concat.
const maxConcat = 16

// Concat joins tensors that agree in every dimension but one.
//
//	one input for each name  the datatype, of rank dimensions
//	joined                   their elements, in the order of the names
//
// Parameters:
//
//	names     of the inputs, 2 to 16; required
//	rank      number of dimensions, 1 to 8; default 1
//	axis      along which they are joined, 0 to rank - 1; default 0
//	datatype  "FP32" (default), "UINT8" or "INT64"
func Concat() Function {
	return Function{Doc: "several tensors, joined", Prepare: prepareConcat}
}

func prepareConcat(p *Parameters) (Step, error) {
	names := p.Texts("names")
	rank := p.Whole("rank", 1, 1, 8)
	axis := p.Whole("axis", 0, 0, rank-1)
	datatype := p.Choice("datatype", wire.FP32, wire.Uint8, wire.Int64)
	p.Need("names")
	if names != nil && (len(names) < 2 || len(names) > maxConcat) {
		p.Failf("names", "must be 2 to %d names of inputs, not %d", maxConcat, len(names))
	}
	shape := slices.Repeat([]int64{-1}, rank)
	sig := pipelines.Signature{Outputs: []pipelines.Port{{Name: "joined", Datatype: datatype, Shape: shape}}}
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			p.Failf("names", "must be different names, but element %d is %q", i+1, name)
		}
		sig.Inputs = append(sig.Inputs, pipelines.Port{Name: name, Datatype: datatype, Shape: shape})
	}
	return Step{Signature: sig, Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
		joined, err := concat(inputs, names, axis)
		return []wire.Tensor{joined}, err
	}}, nil
}

func concat(inputs []wire.Tensor, names []string, axis int) (wire.Tensor, error) {
	first := inputs[0]
	out := wire.Tensor{Datatype: first.Datatype, Shape: slices.Clone(first.Shape)}
	size := len(first.Data)
	for i, t := range inputs[1:] {
		for d := range t.Shape {
			if d != axis && t.Shape[d] != first.Shape[d] {
				return out, fmt.Errorf("input %q has shape %v and %q %v: they may differ along axis %d only", names[0], first.Shape, names[i+1], t.Shape, axis)
			}
		}
		out.Shape[axis] += t.Shape[axis]
		size += len(t.Data)
	}
	out.Data = make([]byte, 0, size)
	for row := range count(first.Shape[:axis]) {
		for _, t := range inputs {
			stride := count(t.Shape[axis:]) * wire.Size(t.Datatype)
			out.Data = append(out.Data, t.Data[row*stride:(row+1)*stride]...)
		}
	}
	return out, nil
}
