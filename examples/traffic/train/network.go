package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	g "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/harpagon/harpagon/executors/onnx"
)

// layer is a convolution with 3 by 3 windows, or a dense layer where dense.
// All but a network's last layer are followed by a rectifier.
type layer struct {
	in, out, kernel, stride, pad int
	dense                        bool
}

// network is a stack of layers with its weights, which are shared by the
// training graph and the file.
type network struct {
	name    string
	input   string
	output  string
	shape   [3]int
	layers  []layer
	weights [][]float32
	biases  [][]float32
}

func newNetwork(name, input, output string, shape [3]int, layers []layer, rng *rand.Rand) *network {
	n := &network{name: name, input: input, output: output, shape: shape, layers: layers}
	for _, l := range layers {
		fan := l.in * l.kernel * l.kernel
		w := make([]float32, fan*l.out)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(fan))) // He et al. 2015
		}
		n.weights = append(n.weights, w)
		n.biases = append(n.biases, make([]float32, l.out))
	}
	return n
}

func conv(in, out, stride int) layer {
	return layer{in: in, out: out, kernel: 3, stride: stride, pad: 1}
}

func dense(in, out int) layer { return layer{in: in, out: out, kernel: 1, dense: true} }

// graph is a training graph of one batch size.
type graph struct {
	network *network
	batch   int
	x       []float32 // inputs
	targets []float32
	masks   [2][]float32 // weights of the two terms of the loss, by output element
	loss    g.Value
	out     g.Value
	machine g.VM
	solver  *g.AdamSolver
	learn   g.Nodes
}

// lossFunc builds a scalar loss from outputs, targets and masks of one shape.
type lossFunc func(out, target *g.Node, masks [2]*g.Node) (*g.Node, error)

func newGraph(n *network, batch int, rate float64, loss lossFunc) *graph {
	t := &graph{network: n, batch: batch}
	eg := g.NewGraph()
	t.x = make([]float32, batch*n.shape[0]*n.shape[1]*n.shape[2])
	h := constant(eg, "x", t.x, batch, n.shape[0], n.shape[1], n.shape[2])
	for i, l := range n.layers {
		h = t.layer(eg, h, i, l)
	}
	size := 1
	for _, d := range h.Shape() {
		size *= d
	}
	t.targets = make([]float32, size)
	target := constant(eg, "target", t.targets, h.Shape()...)
	var masks [2]*g.Node
	for i := range masks {
		t.masks[i] = make([]float32, size)
		masks[i] = constant(eg, fmt.Sprintf("mask%d", i), t.masks[i], h.Shape()...)
	}
	cost := must(loss(h, target, masks))
	g.Read(cost, &t.loss)
	g.Read(h, &t.out)
	must(g.Grad(cost, t.learn...))
	t.machine = g.NewTapeMachine(eg, g.BindDualValues(t.learn...))
	t.solver = g.NewAdamSolver(g.WithLearnRate(rate))
	return t
}

func (t *graph) layer(eg *g.ExprGraph, h *g.Node, i int, l layer) *g.Node {
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

// model is the network as a file.
func (n *network) model() *onnx.Model {
	b := onnx.NewBuilder(n.name, n.input, int64(n.shape[0]), int64(n.shape[1]), int64(n.shape[2]))
	flat := false
	for i, l := range n.layers {
		if l.dense {
			if !flat {
				b.Flatten()
				flat = true
			}
			b.Gemm(n.weights[i], n.biases[i], int64(l.in), int64(l.out))
		} else {
			b.Conv(n.weights[i], n.biases[i], [4]int64{int64(l.out), int64(l.in), int64(l.kernel), int64(l.kernel)}, int64(l.stride), int64(l.pad))
		}
		if i < len(n.layers)-1 {
			b.Relu()
		}
	}
	return b.Model(n.output)
}

// detectionLoss is the cross entropy of the score, weighted by masks[0], plus
// the squared error of the box, weighted by masks[1]. Both masks cover all
// channels and are zero where a term does not apply.
func detectionLoss(out, target *g.Node, masks [2]*g.Node) (*g.Node, error) {
	// softplus(x) - x·y, written as max(x, 0) - x·y + log(1 + exp(-|x|)) so
	// that no exponential can overflow.
	softplus := must(g.Log1p(must(g.Exp(must(g.Neg(must(g.Abs(out))))))))
	entropy := must(g.Add(must(g.Sub(must(g.Rectify(out)), must(g.HadamardProd(out, target)))), softplus))
	scores := must(g.Sum(must(g.HadamardProd(entropy, masks[0]))))
	boxes := must(g.Sum(must(g.HadamardProd(must(g.Square(must(g.Sub(out, target)))), masks[1]))))
	return g.Add(scores, boxes)
}

// classLoss is the cross entropy of a softmax; targets are one in the right
// class, times the share of the request in the loss.
func classLoss(out, target *g.Node, _ [2]*g.Node) (*g.Node, error) {
	p := must(g.SoftMax(out, 1))
	floor := g.NewConstant(float32(1e-7))
	logs := must(g.Log(must(g.Add(p, floor))))
	return g.Neg(must(g.Sum(must(g.HadamardProd(logs, target)))))
}

// rateAt is the learning rate of a step: a short rise, then half a cosine.
func rateAt(step, steps int, peak float64) float64 {
	const rise = 50
	if step < rise {
		return peak * float64(step+1) / rise
	}
	return peak * (0.02 + 0.98*0.5*(1+math.Cos(math.Pi*float64(step-rise)/float64(steps-rise))))
}
