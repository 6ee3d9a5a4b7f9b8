// Package training trains the small networks of the examples with gorgonia, from pictures that
// their programs draw, and writes them as ONNX files.
package training

import (
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	g "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/harpagon/harpagon/executors/onnx"
)

// Layer is a convolution, or a dense layer where dense. All but a network's last
// layer are followed by a rectifier.
type Layer struct {
	in, out, kernel, stride, pad int
	dense                        bool
}

// Conv is a convolution with windows of 3 by 3.
func Conv(in, out, stride int) Layer {
	return Layer{in: in, out: out, kernel: 3, stride: stride, pad: 1}
}

// Point is a convolution with windows of one pixel.
func Point(in, out int) Layer { return Layer{in: in, out: out, kernel: 1, stride: 1} }

// Dense is a dense layer.
func Dense(in, out int) Layer { return Layer{in: in, out: out, kernel: 1, dense: true} }

// Network is a stack of layers with its weights, which are shared by the
// training graph and the file.
type Network struct {
	name    string
	shape   []int // of the input, per request
	layers  []Layer
	weights [][]float32
	biases  [][]float32
}

// New draws the weights of a network (He et al. 2015).
func New(name string, shape []int, layers []Layer, rng *rand.Rand) *Network {
	n := &Network{name: name, shape: shape, layers: layers}
	for _, l := range layers {
		fan := l.in * l.kernel * l.kernel
		w := make([]float32, fan*l.out)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(fan)))
		}
		n.weights = append(n.weights, w)
		n.biases = append(n.biases, make([]float32, l.out))
	}
	return n
}

// Start takes over what another network has learned in its first convolutions, as far as they are
// like those of this one; of the last such, the outputs that both have.
func (n *Network) Start(path string) error {
	p, err := onnx.Load(path)
	if err != nil {
		return err
	}
	i := 0
	for _, s := range p.Steps {
		if s.Op != "Conv" {
			continue
		}
		w, bias := p.Values[s.Inputs[1]], p.Values[s.Inputs[2]]
		if i == len(n.layers) || n.layers[i].dense || n.layers[i].in != w.Dims[1] || n.layers[i].kernel != w.Dims[2] {
			return nil
		}
		copy(n.weights[i], w.Const)
		copy(n.biases[i], bias.Const)
		i++
	}
	return nil
}

// Lesson is what a training step learns from: inputs, targets, and the weights of the two terms
// of the loss for every element of the output. Each holds a whole batch.
type Lesson struct {
	X, Targets []float32
	Masks      [2][]float32
}

// Loss makes a scalar loss from outputs, targets and masks of one shape.
type Loss func(out, target *g.Node, masks [2]*g.Node) (*g.Node, error)

// graph is a training graph of one batch size.
type graph struct {
	Lesson
	network *Network
	batch   int
	loss    g.Value
	machine g.VM
	solver  *g.AdamSolver
	learn   g.Nodes
}

func newGraph(n *Network, batch int, loss Loss) *graph {
	t := &graph{network: n, batch: batch}
	eg := g.NewGraph()
	shape := append([]int{batch}, n.shape...)
	t.X = make([]float32, tensor.Shape(shape).TotalSize())
	h := constant(eg, "x", t.X, shape...)
	for i, l := range n.layers {
		h = t.layer(eg, h, i, l)
	}
	size := h.Shape().TotalSize()
	t.Targets = make([]float32, size)
	target := constant(eg, "target", t.Targets, h.Shape()...)
	var masks [2]*g.Node
	for i := range masks {
		t.Masks[i] = make([]float32, size)
		masks[i] = constant(eg, fmt.Sprintf("mask%d", i), t.Masks[i], h.Shape()...)
	}
	cost := must(loss(h, target, masks))
	g.Read(cost, &t.loss)
	must(g.Grad(cost, t.learn...))
	t.machine = g.NewTapeMachine(eg, g.BindDualValues(t.learn...))
	t.solver = g.NewAdamSolver()
	return t
}

func (t *graph) layer(eg *g.ExprGraph, h *g.Node, i int, l Layer) *g.Node {
	n := t.network
	if l.dense && h.Dims() > 2 {
		h = must(g.Reshape(h, tensor.Shape{t.batch, l.in}))
	}
	if l.dense {
		bias := constant(eg, fmt.Sprintf("b%d", i), n.biases[i], 1, l.out)
		w := constant(eg, fmt.Sprintf("w%d", i), n.weights[i], l.in, l.out)
		t.learn = append(t.learn, w, bias)
		h = must(g.BroadcastAdd(must(g.Mul(h, w)), bias, nil, []byte{0}))
	} else {
		w := constant(eg, fmt.Sprintf("w%d", i), n.weights[i], l.out, l.in, l.kernel, l.kernel)
		h = must(g.Conv2d(h, w, tensor.Shape{l.kernel, l.kernel}, []int{l.pad, l.pad}, []int{l.stride, l.stride}, []int{1, 1}))
		bias := constant(eg, fmt.Sprintf("b%d", i), n.biases[i], 1, l.out, 1, 1)
		t.learn = append(t.learn, w, bias)
		h = must(g.BroadcastAdd(h, bias, nil, []byte{0, 2, 3}))
	}
	if i < len(n.layers)-1 {
		h = must(g.Rectify(h))
	}
	return h
}

// step trains on what the inputs hold and returns the loss.
func (t *graph) step() float32 {
	t.machine.Reset()
	if err := t.machine.RunAll(); err != nil {
		panic(err)
	}
	if err := t.solver.Step(g.NodesToValueGrads(t.learn)); err != nil {
		panic(err)
	}
	return t.loss.Data().(float32)
}

func constant(eg *g.ExprGraph, name string, data []float32, shape ...int) *g.Node {
	v := tensor.New(tensor.WithShape(shape...), tensor.WithBacking(data))
	return g.NewTensor(eg, tensor.Float32, len(shape), g.WithShape(shape...), g.WithName(name), g.WithValue(v))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Train runs steps of Adam at a learning rate that falls from a peak, and logs the loss. fill
// writes what a step learns from.
func (n *Network) Train(batch, steps int, peak float64, loss Loss, fill func(step int, l *Lesson)) {
	t := newGraph(n, batch, loss)
	begin, sum := time.Now(), 0.0
	const every = 100
	for step := range steps {
		fill(step, &t.Lesson)
		g.WithLearnRate(rateAt(step, steps, peak))(t.solver)
		sum += float64(t.step())
		if (step+1)%every == 0 {
			log.Printf("%s: step %d of %d, loss %.4f, %s", n.name, step+1, steps, sum/every, time.Since(begin).Round(time.Second))
			if math.IsNaN(sum) {
				log.Fatal(fmt.Errorf("%s: the loss is not a number any more", n.name))
			}
			sum = 0
		}
	}
	_ = t.machine.Close()
}

// Model is the network as a file. Where there are several outputs, the last layer's channels are
// divided among them.
func (n *Network) Model(input string, outputs ...string) *onnx.Model {
	return n.Part(0, len(n.layers), input, outputs...)
}

// Part is the network from one layer to before another as a file.
func (n *Network) Part(from, to int, input string, outputs ...string) *onnx.Model {
	dims := []int64{int64(n.layers[from].in)}
	if from == 0 {
		dims = dims[:0]
		for _, d := range n.shape {
			dims = append(dims, int64(d))
		}
	}
	b := onnx.NewBuilder(n.name, input, dims...)
	flat := len(dims) == 1
	parts := len(outputs)
	for i, l := range n.layers[from:to] {
		w, bias := n.weights[from+i], n.biases[from+i]
		if from+i == to-1 {
			w, bias, l.out = w[:len(w)/parts], bias[:l.out/parts], l.out/parts
		}
		if l.dense {
			if !flat {
				b.Flatten()
				flat = true
			}
			b.Gemm(w, bias, int64(l.in), int64(l.out))
		} else {
			b.Conv(w, bias, [4]int64{int64(l.out), int64(l.in), int64(l.kernel), int64(l.kernel)}, int64(l.stride), int64(l.pad))
		}
		if from+i < len(n.layers)-1 {
			b.Relu()
		}
	}
	m := b.Model(outputs[0])
	for i, name := range outputs[1:] {
		n.head(m, i+1, parts, name)
	}
	return m
}

// head adds the i-th of the outputs that divide the channels of the last convolution.
func (n *Network) head(m *onnx.Model, i, parts int, output string) {
	last := len(n.layers) - 1
	first := m.Graph.Nodes[len(m.Graph.Nodes)-i]
	node := proto.CloneOf(first)
	node.Name, node.Outputs = output, []string{output}
	for k, values := range [][]float32{n.weights[last], n.biases[last]} {
		size := len(values) / parts
		t := proto.CloneOf(m.Graph.Initializers[2*last+k])
		t.Name, t.Floats = fmt.Sprintf("%s%d", output, k), values[i*size:(i+1)*size]
		node.Inputs[1+k] = t.Name
		m.Graph.Initializers = append(m.Graph.Initializers, t)
	}
	m.Graph.Nodes = append(m.Graph.Nodes, node)
	declared := proto.CloneOf(m.Graph.Outputs[0])
	declared.Name = output
	m.Graph.Outputs = append(m.Graph.Outputs, declared)
}

// Regression is the cross entropy of scores, weighted by masks[0], plus the squared
// error of numbers, weighted by masks[1]. Both masks cover all elements of the
// output and are zero where a term does not apply.
func Regression(out, target *g.Node, masks [2]*g.Node) (*g.Node, error) {
	// softplus(x) - x·y, written as max(x, 0) - x·y + log(1 + exp(-|x|)) so
	// that no exponential can overflow.
	softplus := must(g.Log1p(must(g.Exp(must(g.Neg(must(g.Abs(out))))))))
	entropy := must(g.Add(must(g.Sub(must(g.Rectify(out)), must(g.HadamardProd(out, target)))), softplus))
	scores := must(g.Sum(must(g.HadamardProd(entropy, masks[0]))))
	numbers := must(g.Sum(must(g.HadamardProd(must(g.Square(must(g.Sub(out, target)))), masks[1]))))
	return g.Add(scores, numbers)
}

// Classes is the cross entropy of softmaxes over groups of so many scores; targets are one for
// the right class, times its share of the loss.
func Classes(group int) Loss {
	return func(out, target *g.Node, _ [2]*g.Node) (*g.Node, error) {
		shape := tensor.Shape{out.Shape().TotalSize() / group, group}
		p := must(g.SoftMax(must(g.Reshape(out, shape)), 1))
		floor := g.NewConstant(float32(1e-7))
		logs := must(g.Log(must(g.Add(p, floor))))
		return g.Neg(must(g.Sum(must(g.HadamardProd(logs, must(g.Reshape(target, shape)))))))
	}
}

// TrainClasses trains a network that tells classes apart; draw gives the next inputs and what they
// show.
func (n *Network) TrainClasses(steps int, draw func() (inputs [][]float32, labels []int)) {
	const batch = 32
	classes := n.layers[len(n.layers)-1].out
	var inputs [][]float32
	var labels []int
	n.Train(batch, steps, 2e-3, Classes(classes), func(_ int, l *Lesson) {
		clear(l.Targets)
		for i := range batch {
			for len(inputs) == 0 {
				inputs, labels = draw()
			}
			copy(l.X[i*len(inputs[0]):], inputs[0])
			l.Targets[i*classes+labels[0]] = 1.0 / batch
			inputs, labels = inputs[1:], labels[1:]
		}
	})
}

// rateAt is the learning rate of a step: a short rise, then half a cosine.
func rateAt(step, steps int, peak float64) float64 {
	const rise = 50
	if step < rise {
		return peak * float64(step+1) / rise
	}
	return peak * (0.02 + 0.98*0.5*(1+math.Cos(math.Pi*float64(step-rise)/float64(steps-rise))))
}
