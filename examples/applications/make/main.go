// Command make writes the networks of examples/applications: small ones of the kinds that the
// Harpagon paper names for its five applications. Their weights are drawn from a seed, not
// trained: how long a network computes does not hang on them, and what it says means nothing.
//
//	go run ./examples/applications/make examples/applications/models
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/harpagon/harpagon/executors/onnx"
)

// layer is a convolution of 3 by 3, or a dense layer where stride is 0.
type layer struct{ out, stride int64 }

// network is layers one after the other, with a rectifier between them.
type network struct {
	name, input, output string
	shape               [3]int64 // of the input; the first alone where the others are 0
	layers              []layer
	beside              string // a second input, added to the first; empty for none
}

// networks are those of all modules.
func networks() []network {
	picture := func(side int64) [3]int64 { return [3]int64{3, side, side} }
	detector := func(name, output string, side int64) network {
		return network{name: name, input: "image", output: output, shape: picture(side),
			layers: []layer{{16, 1}, {24, 2}, {32, 1}, {32, 2}, {32, 1}, {3, 1}}}
	}
	classifier := func(name, input, output string, shape [3]int64, classes int64) network {
		return network{name: name, input: input, output: output, shape: shape, layers: []layer{{16, 1}, {32, 2}, {32, 2}, {classes, 0}}}
	}
	return []network{
		detector("traffic-detect", "regions", 96),
		classifier("traffic-vehicle", "crop", "label", picture(24), 12),
		classifier("traffic-pedestrian", "crop", "label", picture(24), 6),
		detector("face-detect", "faces", 128),
		{name: "face-keypoints", input: "face", output: "points", shape: picture(32), layers: []layer{{24, 1}, {32, 2}, {32, 1}, {32, 2}, {136, 0}}},
		{name: "pose-parts", input: "image", output: "heatmaps", shape: picture(96), layers: []layer{{24, 1}, {32, 2}, {48, 1}, {48, 1}, {48, 2}, {48, 1}, {14, 1}}},
		classifier("pose-recognise", "parts", "label", [3]int64{14, 24, 24}, 10),
		{name: "caption-features", input: "frames", output: "features", shape: picture(96), layers: []layer{{16, 2}, {32, 2}, {48, 2}, {48, 2}, {128, 0}}},
		{name: "caption-encode", input: "features", output: "state", shape: [3]int64{128}, layers: []layer{{256, 0}, {128, 0}}},
		{name: "caption-decode", input: "state", output: "words", shape: [3]int64{128}, layers: []layer{{128, 0}, {512, 0}}},
		detector("actdet-detect", "persons", 128),
		classifier("actdet-identity", "persons", "features", picture(32), 64),
		{name: "actdet-motion", input: "persons", output: "features", shape: picture(32), layers: []layer{{16, 1}, {24, 1}, {32, 2}, {64, 0}}},
		{name: "actdet-action", input: "identity", output: "label", shape: [3]int64{64}, layers: []layer{{64, 0}, {10, 0}}, beside: "motion"},
	}
}

// model draws the weights and writes the network down.
func (n *network) model(seed uint64) *onnx.Model {
	rng := rand.New(rand.NewPCG(seed, 1))
	draw := func(count, fanIn int64) []float32 {
		w := make([]float32, count)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(fanIn)))
		}
		return w
	}
	dims := n.shape[:1]
	if n.shape[1] > 0 {
		dims = n.shape[:]
	}
	b := onnx.NewBuilder(n.name, n.input, dims...)
	channels, flat := n.shape[0], n.shape[1] == 0
	for i, l := range n.layers {
		if l.stride > 0 {
			b.Conv(draw(l.out*channels*9, 9*channels), make([]float32, l.out), [4]int64{l.out, channels, 3, 3}, l.stride, 1)
		} else {
			if !flat {
				b.GlobalAveragePool()
				b.Flatten()
				flat = true
			}
			b.Gemm(draw(channels*l.out, channels), make([]float32, l.out), channels, l.out)
		}
		if channels = l.out; i < len(n.layers)-1 {
			b.Relu()
		}
	}
	m := b.Model(n.output)
	if n.beside != "" {
		first := m.Graph.Nodes[0]
		m.Graph.Inputs = append(m.Graph.Inputs, onnx.Declare(n.beside, onnx.Float, append([]int64{-1}, dims...)...))
		m.Graph.Nodes = append([]*onnx.Node{{Name: "sum", Op: "Add", Inputs: []string{n.input, n.beside}, Outputs: []string{"sum.out"}}}, m.Graph.Nodes...)
		first.Inputs[0] = "sum.out"
	}
	return m
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./examples/applications/make FOLDER")
		os.Exit(2)
	}
	if err := os.MkdirAll(os.Args[1], 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for i, n := range networks() {
		file := filepath.Join(os.Args[1], n.name+".onnx")
		if err := os.WriteFile(file, n.model(uint64(i)).Encode(), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
