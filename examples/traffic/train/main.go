// Command train makes the networks of the traffic example from drawn scenes:
//
//	go run ./examples/traffic/train
//
// It trains a detector (one box per cell of a 12 by 12 grid), a classifier of
// vehicle kinds and one of colours, with gorgonia, from scenes of the training
// seeds, and writes them as ONNX files. Accuracy on scenes of other seeds is
// reported at the end; the test of package traffic holds it.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	g "gorgonia.org/gorgonia"

	"github.com/harpagon/harpagon/examples/traffic"
	"github.com/harpagon/harpagon/examples/traffic/scene"
)

// Training scenes have seeds below scene seeds of tests and examples: see
// traffic.FirstUnseen.
const seed = 20261

func main() {
	log.SetFlags(0)
	out := flag.String("out", "examples/traffic/models", "folder for the ONNX files")
	only := flag.String("only", "", "train just this network: detect, vehicle or colour")
	detectSteps := flag.Int("detect-steps", 6000, "training steps of the detector")
	classSteps := flag.Int("class-steps", 3500, "training steps of each classifier")
	flag.Parse()
	debug.SetGCPercent(400)
	for _, n := range []string{"vehicle", "colour", "detect"} {
		if *only != "" && *only != n {
			continue
		}
		var trained *network
		switch n {
		case "detect":
			trained = trainDetector(*detectSteps)
		case "vehicle":
			trained = trainClassifier("vehicle", scene.Kinds(), func(o scene.Object) string { return o.Kind }, *classSteps)
		case "colour":
			trained = trainClassifier("colour", scene.Colours(), func(o scene.Object) string { return o.Colour }, *classSteps)
		}
		path := filepath.Join(*out, n+".onnx")
		if err := os.WriteFile(path, trained.model().Encode(), 0o644); err != nil {
			log.Fatal(err)
		}
		log.Printf("wrote %s", path)
	}
	report, err := traffic.Evaluate(*out, traffic.FirstUnseen, 200)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(report.Describe())
}

// sample draws the scene of one training step and place in its batch.
func sample(step, batch, i int) scene.Scene {
	return scene.Draw(uint64(step*batch+i) % traffic.FirstUnseen)
}

func trainDetector(steps int) *network {
	const batch, cells, stride = 16, 12, 8
	rng := rand.New(rand.NewPCG(seed, 1))
	n := newNetwork("detect", "image", "map", [3]int{3, scene.Side, scene.Side}, []layer{
		conv(3, 12, 2), conv(12, 24, 2), conv(24, 32, 2), conv(32, 32, 1), conv(32, 32, 1),
		{in: 32, out: 5, kernel: 1, stride: 1},
	}, rng)
	n.biases[len(n.biases)-1][0] = -3 // few cells hold a vehicle
	t := newGraph(n, batch, 1e-3, detectionLoss)
	plane := cells * cells
	return t.train(steps, 2e-3, func(step int) {
		for i := range batch {
			s := sample(step, batch, i)
			copy(t.x[i*len(s.Pixels):], s.Pixels)
			at := func(channel, cell int) int { return (i*5+channel)*plane + cell }
			for c := range plane {
				t.masks[0][at(0, c)] = 1.0 / batch
				t.targets[at(0, c)] = 0
				for k := 1; k < 5; k++ {
					t.masks[1][at(k, c)] = 0
				}
			}
			for _, o := range s.Objects {
				if o.Visible < 0.25 {
					continue
				}
				w, h := float64(o.Box[2]-o.Box[0]), float64(o.Box[3]-o.Box[1])
				cx, cy := float64(o.Box[0]+o.Box[2])/2/stride, float64(o.Box[1]+o.Box[3])/2/stride
				column, row := min(int(cx), cells-1), min(int(cy), cells-1)
				c := row*cells + column
				t.targets[at(0, c)] = 1
				t.masks[0][at(0, c)] = 4.0 / batch
				box := [4]float64{cx - float64(column) - 0.5, cy - float64(row) - 0.5, math.Log(w / stride), math.Log(h / stride)}
				for k, v := range box {
					t.targets[at(k+1, c)] = float32(v)
					t.masks[1][at(k+1, c)] = 6.0 / batch
				}
			}
		}
	})
}

func trainClassifier(name string, classes []string, class func(scene.Object) string, steps int) *network {
	const batch = 32
	side := traffic.CropSide
	rng := rand.New(rand.NewPCG(seed, 2))
	quarter := (side + 3) / 4
	n := newNetwork(name, "crop", "scores", [3]int{3, side, side}, []layer{
		conv(3, 16, 2), conv(16, 32, 2), conv(32, 32, 1), dense(32*quarter*quarter, len(classes)),
	}, rng)
	t := newGraph(n, batch, 1e-3, classLoss)
	next := 0
	return t.train(steps, 2e-3, func(int) {
		clear(t.targets)
		for i := 0; i < batch; {
			s := scene.Draw(uint64(next) % traffic.FirstUnseen)
			next++
			for _, o := range s.Objects {
				if i == batch || o.Visible < 0.3 {
					continue
				}
				crop := traffic.Crop(s, jitter(o.Box, rng))
				copy(t.x[i*len(crop):], crop)
				for k, label := range classes {
					if label == class(o) {
						t.targets[i*len(classes)+k] = 1.0 / batch
					}
				}
				i++
			}
		}
	})
}

// jitter moves a box as much as a detector errs.
func jitter(b [4]float32, rng *rand.Rand) [4]float32 {
	w, h := b[2]-b[0], b[3]-b[1]
	for i := range b {
		size := w
		if i%2 == 1 {
			size = h
		}
		b[i] += float32(rng.NormFloat64()) * 0.08 * size
	}
	if b[2]-b[0] < 3 || b[3]-b[1] < 3 {
		b[2], b[3] = b[0]+3, b[1]+3
	}
	return b
}

// train runs steps of Adam at a learning rate that falls, and logs the loss.
func (t *graph) train(steps int, peak float64, fill func(step int)) *network {
	begin, sum := time.Now(), 0.0
	const every = 100
	for step := range steps {
		fill(step)
		g.WithLearnRate(rateAt(step, steps, peak))(t.solver)
		sum += float64(t.step())
		if (step+1)%every == 0 {
			log.Printf("%s: step %d of %d, loss %.4f, %s", t.network.name, step+1, steps, sum/every, time.Since(begin).Round(time.Second))
			if math.IsNaN(sum) {
				log.Fatal(fmt.Errorf("%s: the loss is not a number any more", t.network.name))
			}
			sum = 0
		}
	}
	_ = t.machine.Close()
	return t.network
}
