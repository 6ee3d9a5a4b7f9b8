// Command dense writes dense.onnx, the network of the example: dense layers of
// 1024-2048-2048-2048-10 with random weights, 42 MB.
//
//	go run ./examples/dense
package main

import (
	"flag"
	"log"
	"math"
	"math/rand/v2"
	"os"

	"github.com/harpagon/harpagon/executors/onnx"
)

func main() {
	log.SetFlags(0)
	to := flag.String("to", "examples/dense/dense.onnx", "file to write")
	flag.Parse()
	if err := os.WriteFile(*to, network().Encode(), 0o644); err != nil {
		log.Fatal(err)
	}
}

func network() *onnx.Model {
	rng := rand.New(rand.NewPCG(1, 1))
	b := onnx.NewBuilder("dense", "x", 1024)
	sizes := []int{1024, 2048, 2048, 2048, 10}
	for i := range sizes[1:] {
		in, out := sizes[i], sizes[i+1]
		weights := make([]float32, in*out)
		for j := range weights {
			weights[j] = float32(rng.NormFloat64() / math.Sqrt(float64(in)))
		}
		b.Gemm(weights, make([]float32, out), int64(in), int64(out))
		if out != 10 {
			b.Relu()
		}
	}
	b.Softmax()
	return b.Model("scores")
}
