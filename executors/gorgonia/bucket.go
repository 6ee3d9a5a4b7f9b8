package gorgonia

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	g "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// bucket is a graph and its machine for one batch size.
type bucket struct {
	size    int
	machine g.VM
	inputs  [][]float32 // what the machine reads, padded to size
	// results is allocated apart from the bucket: the graph points to it, and
	// the machine has a finalizer, so a graph that pointed back to the struct
	// that holds the machine would never be freed.
	results []g.Value
	memory  int64
}

func newBucket(p *onnx.Program, size int) (b *bucket, err error) {
	building.Lock()
	defer building.Unlock()
	defer func() {
		if r := recover(); r != nil {
			b, err = nil, fmt.Errorf("building the graph: %v", r)
		}
	}()
	b = &bucket{size: size, results: make([]g.Value, len(p.Outputs))}
	t := translation{program: p, size: size, graph: g.NewGraph(), nodes: make([]*g.Node, len(p.Values))}
	for i, at := range p.Inputs {
		v := &p.Values[at]
		data := make([]float32, size*v.Len())
		b.inputs = append(b.inputs, data)
		t.nodes[at] = t.tensor(fmt.Sprintf("input%d", i), data, append([]int{size}, v.Dims...))
	}
	for _, s := range p.Steps {
		node, err := t.step(s)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", s.Node, err)
		}
		t.nodes[s.Output] = node
	}
	for i, at := range p.Outputs {
		g.Read(t.nodes[at], &b.results[i])
	}
	for i := range p.Values {
		b.memory += 4 * int64(p.Values[i].Len()) * int64(size)
	}
	b.machine = g.NewTapeMachine(t.graph)
	return b, nil
}

// run computes all outputs from what the inputs hold.
func (b *bucket) run() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("running the graph: %v", r)
		}
	}()
	b.machine.Reset()
	return b.machine.RunAll()
}

// fill copies a batch into the inputs and pads it with zeros.
func (b *bucket) fill(ports []pipelines.Port, items [][]wire.Tensor) error {
	for j, data := range b.inputs {
		each := len(data) / b.size
		for i, item := range items {
			if j >= len(item) || item[j].Datatype != "FP32" || len(item[j].Data) != 4*each || !slices.Equal(item[j].Shape, ports[j].Shape) {
				return wire.Errorf(wire.CodeInvalid, "", "gorgonia: request %d of the batch does not fit input %q: %s of shape %v is needed",
					i, ports[j].Name, ports[j].Datatype, ports[j].Shape)
			}
			raw, to := item[j].Data, data[i*each:(i+1)*each]
			for k := range to {
				to[k] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:]))
			}
		}
		clear(data[len(items)*each:])
	}
	return nil
}

// read copies the first n results out of the machine.
func (b *bucket) read(ports []pipelines.Port, n int) ([][]wire.Tensor, error) {
	answers := make([][]wire.Tensor, n)
	cells := make([]wire.Tensor, n*len(ports))
	for i := range answers {
		answers[i], cells = cells[:len(ports):len(ports)], cells[len(ports):]
	}
	for j, port := range ports {
		data, ok := b.results[j].Data().([]float32)
		if !ok {
			return nil, wire.Errorf(wire.CodeInternal, "", "gorgonia: output %q is no float32 tensor", port.Name)
		}
		each := len(data) / b.size
		for i := range answers {
			raw := make([]byte, 4*each)
			for k, v := range data[i*each : (i+1)*each] {
				binary.LittleEndian.PutUint32(raw[4*k:], math.Float32bits(v))
			}
			answers[i][j] = wire.Tensor{Datatype: port.Datatype, Shape: port.Shape, Data: raw}
		}
	}
	return answers, nil
}

// translation turns a program into a graph of one batch size.
type translation struct {
	program *onnx.Program
	size    int
	graph   *g.ExprGraph
	nodes   []*g.Node // by value
}

func (t *translation) tensor(name string, data []float32, shape []int) *g.Node {
	v := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
	return g.NewTensor(t.graph, tensor.Float32, len(shape), g.WithShape(shape...), g.WithName(name), g.WithValue(v))
}

// constant is a value's elements in the given shape.
func (t *translation) constant(at int, shape ...int) *g.Node {
	return t.tensor(fmt.Sprintf("constant%d", at), t.program.Values[at].Const, shape)
}

// spread repeats a constant over the batch, and each of its elements over an
// area. Gorgonia adds tensors of one shape much faster than it broadcasts.
func (t *translation) spread(at, area int, shape []int) *g.Node {
	from := t.program.Values[at].Const
	data := make([]float32, 0, t.size*len(from)*area)
	for range t.size {
		for _, v := range from {
			for range area {
				data = append(data, v)
			}
		}
	}
	return t.tensor(fmt.Sprintf("constant%d", at), data, shape)
}

// shape is the value's shape with the batch.
func (t *translation) shape(at int) []int {
	return append([]int{t.size}, t.program.Values[at].Dims...)
}

func (t *translation) step(s onnx.Step) (*g.Node, error) {
	x := t.nodes[s.Inputs[0]]
	switch s.Op {
	case "Conv":
		return t.conv(s, x)
	case "MaxPool":
		w := s.Window
		return g.MaxPool2D(x, tensor.Shape(w.Kernel[:]), w.Pad[:], w.Stride[:])
	case "GlobalAveragePool":
		return t.globalAveragePool(s, x)
	case "Gemm":
		return t.gemm(s, x)
	case "Add", "Mul":
		y := t.nodes[s.Inputs[1]]
		if t.program.Values[s.Inputs[1]].Const != nil {
			y = t.spread(s.Inputs[1], 1, t.shape(s.Output))
		}
		if s.Op == "Add" {
			return g.Add(x, y)
		}
		return g.HadamardProd(x, y)
	case "Relu":
		return g.Rectify(x)
	case "Sigmoid":
		return g.Sigmoid(x)
	case "Tanh":
		return g.Tanh(x)
	case "Softmax":
		return g.SoftMax(x, 1)
	case "Reshape":
		return g.Reshape(x, t.shape(s.Output))
	case "Identity":
		return x, nil
	}
	return nil, fmt.Errorf("operator %q has no translation", s.Op)
}

func (t *translation) conv(s onnx.Step, x *g.Node) (*g.Node, error) {
	w := s.Window
	y, err := g.Conv2d(x, t.constant(s.Inputs[1], t.program.Values[s.Inputs[1]].Dims...),
		tensor.Shape(w.Kernel[:]), w.Pad[:], w.Stride[:], w.Dilation[:])
	if err != nil {
		return nil, err
	}
	out := t.program.Values[s.Output].Dims
	return g.Add(y, t.spread(s.Inputs[2], out[1]*out[2], t.shape(s.Output)))
}

// globalAveragePool is a product with a vector of equal parts.
func (t *translation) globalAveragePool(s onnx.Step, x *g.Node) (*g.Node, error) {
	in := t.program.Values[s.Inputs[0]].Dims
	area := in[1] * in[2]
	rows, err := g.Reshape(x, tensor.Shape{t.size * in[0], area})
	if err != nil {
		return nil, err
	}
	parts := make([]float32, area)
	for i := range parts {
		parts[i] = 1 / float32(area)
	}
	mean, err := g.Mul(rows, t.tensor("parts"+s.Node, parts, []int{area, 1}))
	if err != nil {
		return nil, err
	}
	return g.Reshape(mean, t.shape(s.Output))
}

func (t *translation) gemm(s onnx.Step, x *g.Node) (*g.Node, error) {
	y, err := g.Mul(x, t.constant(s.Inputs[1], t.program.Values[s.Inputs[1]].Dims...))
	if err != nil {
		return nil, err
	}
	return g.Add(y, t.spread(s.Inputs[2], 1, t.shape(s.Output)))
}
