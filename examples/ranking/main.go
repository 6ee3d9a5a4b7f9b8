// Command ranking trains the network of the example, a small wide and deep one that
// predicts how likely the reader of a page clicks on an item, on made-up readers, and
// writes it as ranking.onnx.
//
//	go run ./examples/ranking
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"

	"github.com/harpagon/harpagon/executors/onnx"
)

func main() {
	log.SetFlags(0)
	to := flag.String("to", "examples/ranking/ranking.onnx", "file to write")
	items := flag.Int("items", 30_000, "made-up items to learn from")
	flag.Parse()
	n, loss := train(*items)
	fmt.Printf("mean log loss over the last tenth: %.3f\n", loss)
	if err := os.WriteFile(*to, n.model().Encode(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// train learns from that many items, each once, and reports how well the last tenth was
// foretold.
func train(items int) (n *network, loss float64) {
	rng := rand.New(rand.NewPCG(1, 1))
	n = newNetwork(rng)
	taste := make([]float64, wide+dense) // of the readers
	for i := range taste {
		taste[i] = rng.NormFloat64() / 4
	}
	const begin, end = 0.02, 0.002 // rates of learning
	counted := 0
	for i := range items {
		w, d, score := make([]float32, wide), make([]float32, dense), 0.0
		for j := range w {
			if rng.IntN(8) == 0 { // crossed features are rarely there
				w[j] = 1
				score += 2 * taste[j]
			}
		}
		for j := range d {
			d[j] = float32(rng.NormFloat64())
			score += taste[wide+j] * float64(d[j])
		}
		score += float64(d[0]) * float64(d[1]) // what a linear model cannot learn
		clicked := rng.Float64() < 1/(1+math.Exp(-score))
		rate := begin + (end-begin)*float64(i)/float64(items)
		p := n.step(w, d, clicked, float32(rate))
		if i >= items*9/10 {
			if !clicked {
				p = 1 - p
			}
			loss -= math.Log(math.Max(p, math.SmallestNonzeroFloat64))
			counted++
		}
	}
	return n, loss / float64(max(counted, 1))
}

// Sizes of the network.
const (
	wide   = 48 // crossed features of an item and its reader
	dense  = 64 // what is known of both
	first  = 256
	second = 128
)

// layer is a dense layer: weights [in][out], row by row.
type layer struct {
	in, out int
	w, b    []float32
}

func newLayer(in, out int, rng *rand.Rand) layer {
	l := layer{in: in, out: out, w: make([]float32, in*out), b: make([]float32, out)}
	for i := range l.w {
		l.w[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(in)))
	}
	return l
}

// forward is x·w + b, kept above zero where it is rectified.
func (l *layer) forward(x []float32, rectified bool) []float32 {
	y := append([]float32(nil), l.b...)
	for i, xi := range x {
		for j, w := range l.w[i*l.out : (i+1)*l.out] {
			y[j] += xi * w
		}
	}
	for j := range y {
		if rectified && y[j] < 0 {
			y[j] = 0
		}
	}
	return y
}

// backward moves the layer against the gradient of its output at input x, and gives
// the gradient of x.
func (l *layer) backward(x, grad []float32, rate float32) []float32 {
	below := make([]float32, l.in)
	for i, xi := range x {
		row := l.w[i*l.out : (i+1)*l.out]
		for j, g := range grad {
			below[i] += g * row[j]
			row[j] -= rate * g * xi
		}
	}
	for j, g := range grad {
		l.b[j] -= rate * g
	}
	return below
}

// network is wide and deep (Cheng and others, 2016): a click is as likely as the
// sigmoid of a linear model of the crossed features and of three dense layers.
type network struct{ wide, deep1, deep2, deep3 layer }

func newNetwork(rng *rand.Rand) *network {
	return &network{newLayer(wide, 1, rng), newLayer(dense, first, rng), newLayer(first, second, rng), newLayer(second, 1, rng)}
}

// step learns from one item, and reports how likely a click was taken to be before.
func (n *network) step(w, d []float32, clicked bool, rate float32) float64 {
	h1 := n.deep1.forward(d, true)
	h2 := n.deep2.forward(h1, true)
	z := n.deep3.forward(h2, false)[0] + n.wide.forward(w, false)[0]
	p := 1 / (1 + math.Exp(-float64(z)))
	grad := []float32{float32(p)}
	if clicked {
		grad[0]--
	}
	n.wide.backward(w, grad, rate)
	g2 := n.deep3.backward(h2, grad, rate)
	mask(g2, h2)
	g1 := n.deep2.backward(h1, g2, rate)
	mask(g1, h1)
	n.deep1.backward(d, g1, rate)
	return p
}

// mask drops the gradient where a rectifier gave nothing.
func mask(grad, out []float32) {
	for i := range grad {
		if out[i] <= 0 {
			grad[i] = 0
		}
	}
}

// model is the network as ONNX: inputs wide and dense, output click, a row for every
// item of a query.
func (n *network) model() *onnx.Model {
	m := onnx.NewModel(13)
	g := m.Graph
	g.Name = "ranking"
	g.Inputs = []*onnx.ValueInfo{
		onnx.Declare("wide", onnx.Float, -1, wide),
		onnx.Declare("dense", onnx.Float, -1, dense),
	}
	g.Outputs = []*onnx.ValueInfo{onnx.Declare("click", onnx.Float, -1, 1)}
	gemm := func(name, from string, l layer) string {
		g.Initializers = append(g.Initializers,
			&onnx.Tensor{Name: name + ".weight", Type: onnx.Float, Dims: []int64{int64(l.in), int64(l.out)}, Floats: l.w},
			&onnx.Tensor{Name: name + ".bias", Type: onnx.Float, Dims: []int64{int64(l.out)}, Floats: l.b})
		return node(g, "Gemm", name, from, name+".weight", name+".bias")
	}
	deep := node(g, "Relu", "relu1", gemm("deep1", "dense", n.deep1))
	deep = node(g, "Relu", "relu2", gemm("deep2", deep, n.deep2))
	sum := node(g, "Add", "sum", gemm("deep3", deep, n.deep3), gemm("linear", "wide", n.wide))
	g.Nodes = append(g.Nodes, &onnx.Node{Name: "click", Op: "Sigmoid", Inputs: []string{sum}, Outputs: []string{"click"}})
	return m
}

func node(g *onnx.Graph, op, name string, inputs ...string) string {
	g.Nodes = append(g.Nodes, &onnx.Node{Name: name, Op: op, Inputs: inputs, Outputs: []string{name + ".out"}})
	return name + ".out"
}
