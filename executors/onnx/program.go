package onnx

import (
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
)

// Program is a model that has been checked: every shape is known and every
// step is within what the engines can do.
type Program struct {
	Name    string
	Values  []Value
	Steps   []Step
	Inputs  []int // indices into Values
	Outputs []int
}

// Value is a tensor of a program. Dims is the shape for one request, without
// the batch dimension; Const, when set, holds the same elements for every
// request, in that shape.
type Value struct {
	Name  string
	Dims  []int
	Const []float32
}

// Len is the number of elements for one request.
func (v *Value) Len() int {
	n := 1
	for _, d := range v.Dims {
		n *= d
	}
	return n
}

// Step computes one value from others.
//
//	Conv               input [C,H,W], weights [M,C,kh,kw], bias [M]
//	MaxPool            input [C,H,W]
//	GlobalAveragePool  input [C,H,W], output [C,1,1]
//	Gemm               input [K], weights [K,N], bias [N]
//	Add, Mul           two inputs of the same shape
//	Reshape            input and output with the same number of elements
//	Relu, Sigmoid, Tanh, Identity  element by element
//	Softmax            input [K]
//
// Compile turns MatMul into Gemm with a bias of zero, Flatten into Reshape,
// and writes out broadcast constants in full.
type Step struct {
	Node   string // for messages: the node's name, or its operator and place
	Op     string
	Inputs []int
	Output int
	Window Window // Conv and MaxPool
}

// Window slides over height and width; padding is the same on both sides.
type Window struct {
	Kernel, Stride, Pad, Dilation [2]int
}

// Out is the extent of the window's output along axis 0 (height) or 1 (width).
func (w Window) Out(axis, in int) int {
	span := w.Dilation[axis]*(w.Kernel[axis]-1) + 1
	if in+2*w.Pad[axis] < span {
		return 0
	}
	return (in+2*w.Pad[axis]-span)/w.Stride[axis] + 1
}

// Operators is the sorted list of operators that Compile takes.
func Operators() []string {
	return []string{"Add", "Constant", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "Identity", "MatMul",
		"MaxPool", "Mul", "Relu", "Reshape", "Sigmoid", "Softmax", "Tanh"}
}

// Signature is what the program takes and gives for one request.
func (p *Program) Signature() pipelines.Signature {
	ports := func(indices []int) []pipelines.Port {
		var all []pipelines.Port
		for _, i := range indices {
			port := pipelines.Port{Name: p.Values[i].Name, Datatype: "FP32", Shape: []int64{}}
			for _, d := range p.Values[i].Dims {
				port.Shape = append(port.Shape, int64(d))
			}
			all = append(all, port)
		}
		return all
	}
	return pipelines.Signature{Inputs: ports(p.Inputs), Outputs: ports(p.Outputs)}
}

// Describe lists the steps with their shapes.
func (p *Program) Describe() string {
	var b strings.Builder
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%-18s", s.Op)
		for _, i := range s.Inputs {
			fmt.Fprintf(&b, " %s%v", p.Values[i].Name, p.Values[i].Dims)
		}
		fmt.Fprintf(&b, " -> %s%v\n", p.Values[s.Output].Name, p.Values[s.Output].Dims)
	}
	return b.String()
}

// Load reads and compiles a file. Errors name the file.
func Load(path string) (*Program, error) {
	m, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := Compile(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Signature compiles the model just to see what it takes and gives.
func Signature(m *Model) (pipelines.Signature, error) {
	p, err := Compile(m)
	if err != nil {
		return pipelines.Signature{}, err
	}
	return p.Signature(), nil
}

// unsupported names an operator and what to do about it.
func unsupported(node, op string) error {
	return fmt.Errorf("onnx: node %s: operator %q is not supported; supported are %s; use an engine that knows it, such as engine = \"onnxruntime\"",
		node, op, strings.Join(Operators(), ", "))
}

func equalDims(a, b []int) bool { return slices.Equal(a, b) }
