package onnx

import (
	"errors"
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
	return fmt.Errorf("onnx: node %s: operator %q is not supported; supported are %s; use an engine that has it, such as engine = \"onnxruntime\"",
		node, op, strings.Join(Operators(), ", "))
}

func equalDims(a, b []int) bool { return slices.Equal(a, b) }

// maxItem bounds the elements that one request may have in any tensor.
const maxItem = 1 << 22

// maxDerived bounds the elements of all broadcast constants together, so that a small file of
// many nodes cannot take unbounded memory.
const maxDerived = 1 << 26

// The operator sets whose operators this package implements. Before 7, Add, Mul and Gemm
// broadcast by other rules.
const (
	oldestOpset = 7
	newestOpset = 24
)

// Compile checks a model and infers its shapes. Errors name the node.
func Compile(m *Model) (*Program, error) {
	if opset := m.opset(); opset < oldestOpset || opset > newestOpset {
		return nil, fmt.Errorf("onnx: the model uses operator set %d, and %d to %d are supported; export it again with one of these, or set engine = \"onnxruntime\"", opset, oldestOpset, newestOpset)
	}
	g := m.GetGraph()
	c := &compiler{program: &Program{Name: g.GetName()}, byName: map[string]int{}, shapes: map[string][]int64{}}
	if err := c.constants(g.GetInitializers()); err != nil {
		return nil, err
	}
	if err := c.inputs(g); err != nil {
		return nil, err
	}
	for i, n := range g.GetNodes() {
		if n.Domain != "" && n.Domain != ownDomain {
			return nil, unsupported(label(n, i), n.Domain+"."+n.Op)
		}
		if err := c.node(n, label(n, i)); err != nil {
			return nil, err
		}
	}
	if len(g.GetOutputs()) == 0 {
		return nil, errors.New("onnx: the graph declares no outputs")
	}
	for _, o := range g.Outputs {
		at, ok := c.byName[o.Name]
		if !ok || c.program.Values[at].Const != nil {
			return nil, fmt.Errorf("onnx: output %q is not computed by any node", o.Name)
		}
		c.program.Outputs = append(c.program.Outputs, at)
	}
	return c.program, nil
}

// label names a node in messages.
func label(n *Node, at int) string {
	if n.Name != "" {
		return fmt.Sprintf("%q", n.Name)
	}
	return fmt.Sprintf("%d (%s)", at, n.Op)
}

type compiler struct {
	program *Program
	byName  map[string]int     // tensor name -> index of its value
	derived int                // elements of broadcast constants so far
	shapes  map[string][]int64 // int64 constants, which only Reshape reads
}

func (c *compiler) add(v Value) int {
	c.program.Values = append(c.program.Values, v)
	c.byName[v.Name] = len(c.program.Values) - 1
	return len(c.program.Values) - 1
}

func (c *compiler) constants(all []*Tensor) error {
	for _, t := range all {
		if err := c.constant(t, t.Name); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) constant(t *Tensor, name string) error {
	n, err := elements(t.Dims)
	if err != nil {
		return fmt.Errorf("onnx: constant %q has %w", name, err)
	}
	switch t.Type {
	case Int64:
		c.shapes[name] = t.integers()
	case Float:
		floats := t.floats()
		if len(floats) != n {
			return fmt.Errorf("onnx: constant %q has %d elements for shape %v", name, len(floats), t.Dims)
		}
		dims := make([]int, len(t.Dims))
		for i, d := range t.Dims {
			dims[i] = int(d)
		}
		// A constant without elements is still one.
		c.add(Value{Name: name, Dims: dims, Const: append(make([]float32, 0, n+1), floats...)})
	default:
		return fmt.Errorf("onnx: constant %q has data type %v; only float and, for shapes, int64 are supported", name, t.Type)
	}
	return nil
}

func (c *compiler) inputs(g *Graph) error {
	for _, in := range g.GetInputs() {
		if _, isConst := c.byName[in.Name]; isConst || c.shapes[in.Name] != nil {
			continue // older files list constants among the inputs
		}
		if in.element() != Float {
			return fmt.Errorf("onnx: input %q has data type %v; only float is supported", in.Name, in.element())
		}
		declared := in.dims()
		if len(declared) == 0 {
			return fmt.Errorf("onnx: input %q has no batch dimension", in.Name)
		}
		if declared[0] > 1 {
			return fmt.Errorf("onnx: input %q has a fixed batch size of %d; export the model with a dynamic batch dimension", in.Name, declared[0])
		}
		dims := make([]int, 0, len(declared))
		size := int64(1)
		for i, d := range declared[1:] {
			if d <= 0 || d > maxItem {
				return fmt.Errorf("onnx: dimension %d of input %q is dynamic or out of range; export the model with a fixed size", i+1, in.Name)
			}
			if size *= d; size > maxItem {
				return fmt.Errorf("onnx: input %q is larger than %d elements", in.Name, maxItem)
			}
			dims = append(dims, int(d))
		}
		c.program.Inputs = append(c.program.Inputs, c.add(Value{Name: in.Name, Dims: dims}))
	}
	if len(c.program.Inputs) == 0 {
		return errors.New("onnx: the graph declares no inputs")
	}
	return nil
}

// operands are the inputs of a node under translation.
type operands struct {
	*compiler
	node  *Node
	label string
}

func (o operands) errorf(format string, args ...any) error {
	return fmt.Errorf("onnx: node %s: %s: %s", o.label, o.node.Op, fmt.Sprintf(format, args...))
}

// value returns input i, which must be computed (not a constant).
func (o operands) value(i int) (int, []int, error) {
	at, err := o.any(i)
	if err != nil {
		return 0, nil, err
	}
	v := o.program.Values[at]
	if v.Const != nil {
		return 0, nil, o.errorf("input %d (%q) is a constant; the batch must run through it", i, v.Name)
	}
	return at, v.Dims, nil
}

// weights returns input i, which must be a constant with that many dimensions.
func (o operands) weights(i, rank int) (Value, error) {
	at, err := o.any(i)
	if err != nil {
		return Value{}, err
	}
	v := o.program.Values[at]
	if v.Const == nil {
		return Value{}, o.errorf("input %d (%q) must be a constant", i, v.Name)
	}
	if len(v.Dims) != rank {
		return Value{}, o.errorf("constant %q has shape %v; %d dimensions are needed", v.Name, v.Dims, rank)
	}
	return v, nil
}

func (o operands) has(i int) bool { return i < len(o.node.Inputs) && o.node.Inputs[i] != "" }

func (o operands) any(i int) (int, error) {
	if !o.has(i) {
		return 0, o.errorf("input %d is missing", i)
	}
	at, ok := o.byName[o.node.Inputs[i]]
	if !ok {
		return 0, o.errorf("input %q is not computed before it is used", o.node.Inputs[i])
	}
	return at, nil
}

// step appends a step whose output is the node's first.
func (o operands) step(op string, dims []int, w Window, inputs ...int) error {
	size := 1
	for _, d := range dims {
		if d <= 0 {
			return o.errorf("the output would have shape %v", dims)
		}
		if size > maxItem/d {
			return o.errorf("the output of shape %v is larger than %d elements", dims, maxItem)
		}
		size *= d
	}
	if len(o.node.Outputs) == 0 || o.node.Outputs[0] == "" {
		return o.errorf("it has no output")
	}
	if _, twice := o.byName[o.node.Outputs[0]]; twice {
		return o.errorf("output %q is computed twice", o.node.Outputs[0])
	}
	out := o.add(Value{Name: o.node.Outputs[0], Dims: slices.Clone(dims)})
	o.program.Steps = append(o.program.Steps, Step{Node: o.label, Op: op, Inputs: inputs, Output: out, Window: w})
	return nil
}

// hidden adds a constant that the compiler has derived.
func (o operands) hidden(suffix string, dims []int, data []float32) int {
	return o.add(Value{Name: o.label + suffix, Dims: dims, Const: data})
}

func (c *compiler) node(n *Node, label string) error {
	o := operands{compiler: c, node: n, label: label}
	if err := o.refuseUnknownAttributes(); err != nil {
		return err
	}
	switch n.Op {
	case "Conv":
		return o.conv()
	case "MaxPool":
		return o.maxPool()
	case "GlobalAveragePool":
		return o.globalAveragePool()
	case "Gemm", "MatMul":
		return o.dense()
	case "Add", "Mul":
		return o.binary()
	case "Relu", "Sigmoid", "Tanh", "Identity":
		at, dims, err := o.value(0)
		if err != nil {
			return err
		}
		return o.step(n.Op, dims, Window{}, at)
	case "Softmax":
		return o.softmax()
	case "Flatten", "Reshape":
		return o.reshape()
	case "Constant":
		if len(n.Attributes) != 1 || n.Attributes[0].Tensor == nil || len(n.Outputs) != 1 {
			return o.errorf("only a single tensor value is supported")
		}
		return c.constant(n.Attributes[0].Tensor, n.Outputs[0])
	}
	return unsupported(label, n.Op)
}
