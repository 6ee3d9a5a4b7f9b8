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
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/harpagon/harpagon/examples/traffic"
	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/examples/training"
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
		var trained *training.Network
		input, output := "crop", "scores"
		switch n {
		case "detect":
			trained, input, output = trainDetector(*detectSteps), "image", "map"
		case "vehicle":
			trained = trainClassifier("vehicle", scene.Kinds(), func(o scene.Object) string { return o.Kind }, *classSteps)
		case "colour":
			trained = trainClassifier("colour", scene.Colours(), func(o scene.Object) string { return o.Colour }, *classSteps)
		}
		path := filepath.Join(*out, n+".onnx")
		if err := os.WriteFile(path, trained.Model(input, output).Encode(), 0o644); err != nil {
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

func trainDetector(steps int) *training.Network {
	n := training.NewDetector("detect", 1, rand.New(rand.NewPCG(seed, 1)))
	n.TrainDetector(steps, func(i int) ([]float32, [][][4]float32) {
		s := scene.Draw(uint64(i) % traffic.FirstUnseen)
		var boxes [][4]float32
		for _, o := range s.Objects {
			if o.Visible >= 0.25 {
				boxes = append(boxes, o.Box)
			}
		}
		return s.Pixels, [][][4]float32{boxes}
	})
	return n
}

func trainClassifier(name string, classes []string, class func(scene.Object) string, steps int) *training.Network {
	rng := rand.New(rand.NewPCG(seed, 2))
	n := training.New(name, []int{3, training.Crop, training.Crop}, training.Look(len(classes)), rng)
	next := 0
	n.TrainClasses(steps, func() (crops [][]float32, labels []int) {
		s := scene.Draw(uint64(next) % traffic.FirstUnseen)
		next++
		for _, o := range s.Objects {
			if o.Visible >= 0.3 {
				crops = append(crops, traffic.Crop(s, training.Jitter(o.Box, rng)))
				labels = append(labels, slices.Index(classes, class(o)))
			}
		}
		return crops, labels
	})
	return n
}
