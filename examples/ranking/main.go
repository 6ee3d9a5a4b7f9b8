// Command ranking trains the network of the example, a small wide and deep one that
// says how likely the reader of a page clicks on an item, on made-up readers, and
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

// train learns from that many items, each once, and says how well the last tenth was
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
