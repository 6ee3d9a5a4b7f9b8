// Command train makes the networks of examples/applications from pictures that the package draws:
//
//	go run ./examples/applications/train
//
// Detectors begin with what the detector of examples/traffic has learned, so that they need
// minutes on a core. The test of the package holds the accuracy on pictures of other seeds.
package main

import (
	"context"
	"flag"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/examples/applications"
	"github.com/harpagon/harpagon/examples/traffic"
	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/examples/training"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// trunk is the file that detectors begin with.
const trunk = "examples/traffic/models/detect.onnx"

// folder is where networks are written.
type folder string

func main() {
	log.SetFlags(0)
	out := flag.String("out", "examples/applications/models", "folder for the ONNX files")
	only := flag.String("only", "", "train just these networks, such as pose-parts,pose-recognise")
	flag.Parse()
	debug.SetGCPercent(400)
	to := folder(*out)
	for _, one := range []struct {
		name  string
		train func(folder)
	}{
		{"traffic-detect", folder.trafficDetect}, {"traffic-pedestrian", folder.trafficPedestrian},
		{"face-detect", folder.faceDetect}, {"face-keypoints", folder.faceKeypoints},
		{"pose-parts", folder.poseParts}, {"pose-recognise", folder.poseRecognise},
		{"caption", folder.caption},
		{"actdet-detect", folder.actdetDetect}, {"actdet-identity", folder.actdetIdentity},
		{"actdet-motion", folder.actdetMotion}, {"actdet-action", folder.actdetAction},
	} {
		if *only == "" || slices.Contains(strings.Split(*only, ","), one.name) {
			one.train(to)
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func (f folder) write(name string, m *onnx.Model) {
	must(os.WriteFile(filepath.Join(string(f), name+".onnx"), m.Encode(), 0o644))
}

func weights(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(20261, seed)) }

// seed of the i-th picture of a training.
func seed(i int) uint64 { return uint64(i) % applications.FirstUnseen }

// detector trains one that has a map for each of the outputs.
func (f folder) detector(name string, steps int, outputs []string, draw func(i int) ([]float32, [][][4]float32)) {
	n := training.NewDetector(name, len(outputs), weights(1))
	must(n.Start(trunk))
	n.TrainDetector(steps, draw)
	f.write(name, n.Model("image", outputs...))
}

func boxes(all []applications.Object) (list [][4]float32) {
	for _, o := range all {
		list = append(list, o.Box)
	}
	return list
}

func (f folder) trafficDetect() {
	f.detector("traffic-detect", 3000, []string{"vehicles", "pedestrians"}, func(i int) ([]float32, [][][4]float32) {
		pixels, vehicles, people := applications.Street(seed(i))
		return pixels, [][][4]float32{boxes(vehicles), boxes(people)}
	})
}

// person trains a classifier of people.
func (f folder) person(name string, layers []training.Layer, steps int, draw func(i int) ([]float32, []applications.Object)) *training.Network {
	rng, next := weights(2), 0
	n := training.New(name, []int{3, training.Crop, training.Crop}, layers, rng)
	n.TrainClasses(steps, func() (crops [][]float32, labels []int) {
		pixels, people := draw(next)
		next++
		for _, o := range people {
			crops = append(crops, crop(pixels, training.Jitter(o.Box, rng)))
			labels = append(labels, o.Class)
		}
		return crops, labels
	})
	return n
}

func (f folder) trafficPedestrian() {
	n := f.person("traffic-pedestrian", training.Look(len(applications.Walkers())), 1500, func(i int) ([]float32, []applications.Object) {
		pixels, _, people := applications.Street(seed(i))
		return pixels, people
	})
	f.write("traffic-pedestrian", n.Model("crop", "label"))
}

// crop cuts a box out of a picture as the pipelines' steps do.
func crop(pixels []float32, box [4]float32) []float32 {
	return traffic.Crop(scene.Scene{Pixels: pixels}, box)
}

func (f folder) faceDetect() {
	f.detector("face-detect", 250, []string{"faces"}, func(i int) ([]float32, [][][4]float32) {
		pixels, faces := applications.Portraits(seed(i))
		return pixels, [][][4]float32{boxes(faces)}
	})
}

func (f folder) faceKeypoints() {
	const batch = 32
	rng, next := weights(3), 0
	count := 2 * len(applications.FacePoints())
	n := training.New("face-keypoints", []int{3, training.Crop, training.Crop}, training.Look(count), rng)
	n.Train(batch, 1000, 2e-3, training.Regression, func(_ int, l *training.Lesson) {
		for i := 0; i < batch; next++ {
			pixels, faces := applications.Portraits(seed(next))
			for _, o := range faces[:min(len(faces), batch-i)] {
				box := training.Jitter(o.Box, rng)
				copy(l.X[i*3*training.Crop*training.Crop:], crop(pixels, box))
				for k, v := range applications.Within(box, o.Points) {
					l.Targets[i*count+k] = v
					l.Masks[1][i*count+k] = 4.0 / batch
				}
				i++
			}
		}
	})
	f.write("face-keypoints", n.Model("face", "points"))
}

// poseParts trains a map for each joint: in which cell it is.
func (f folder) poseParts() {
	const batch, plane = 16, training.Cells * training.Cells
	n := training.New("pose-parts", []int{3, training.Side, training.Side},
		append(training.Trunk(), training.Conv(32, 32, 1), training.Point(32, len(applications.Joints()))), weights(4))
	must(n.Start(trunk))
	n.Train(batch, 4000, 2e-3, training.Regression, func(step int, l *training.Lesson) {
		clear(l.Targets)
		for i := range l.Masks[0] {
			l.Masks[0][i] = 1.0 / batch
		}
		for i := range batch {
			pixels, person := applications.Figure(seed(step*batch + i))
			copy(l.X[i*len(pixels):], pixels)
			for j := range applications.Joints() {
				if cell := applications.Cell(person.Points[2*j:]); cell >= 0 {
					at := (i*len(applications.Joints())+j)*plane + cell
					l.Targets[at], l.Masks[0][at] = 1, 4.0/batch
				}
			}
		}
	})
	f.write("pose-parts", n.Model("image", "heatmaps"))
}

// poseRecognise trains on what pose-parts gives.
func (f folder) poseRecognise() {
	parts := f.open("pose-parts", 3, training.Side, training.Side)
	joints := len(applications.Joints())
	n := training.New("pose-recognise", []int{joints, training.Cells, training.Cells}, []training.Layer{
		training.Conv(joints, 32, 1), training.Conv(32, 32, 2), training.Dense(32*36, 64), training.Dense(64, len(applications.Poses()))}, weights(5))
	var maps [][]float32
	var poses []int
	for i := range 8000 {
		pixels, person := applications.Figure(seed(i))
		maps, poses = append(maps, parts(pixels)), append(poses, person.Class)
	}
	n.TrainClasses(5000, func() ([][]float32, []int) { return maps, poses })
	f.write("pose-recognise", n.Model("parts", "label"))
}

// open loads a network that was written, to be run on one input at a time.
func (f folder) open(name string, shape ...int64) func(x []float32) []float32 {
	in, err := gorgonia.New().Load(context.Background(), executors.Model{
		Module: pipelines.Module{Name: name, Model: filepath.Join(string(f), name+".onnx")}, Batches: []int{1}, MaxBatch: 1})
	must(err)
	return func(x []float32) []float32 {
		out, err := in.Run(context.Background(), [][]wire.Tensor{{wire.FromFloat32(x, shape...)}})
		must(err)
		values, err := out[0][0].Float32s()
		must(err)
		return values
	}
}

// caption trains the three networks as one, and writes each.
func (f folder) caption() {
	const batch = 16
	vocabulary := len(applications.Words())
	n := training.New("caption", []int{3, training.Side, training.Side}, []training.Layer{
		training.Conv(3, 12, 2), training.Conv(12, 24, 2), training.Conv(24, 32, 2), training.Conv(32, 32, 2), training.Dense(32*36, 64),
		training.Dense(64, 128), training.Dense(128, 64),
		training.Dense(64, 96), training.Dense(96, applications.Sentence*vocabulary)}, weights(6))
	must(n.Start(trunk))
	n.Train(batch, 4000, 2e-3, training.Classes(vocabulary), func(step int, l *training.Lesson) {
		clear(l.Targets)
		for i := range batch {
			pixels, words := applications.Clip(seed(step*batch + i))
			copy(l.X[i*len(pixels):], pixels)
			for k, w := range words {
				l.Targets[(i*applications.Sentence+k)*vocabulary+w] = 1.0 / batch
			}
		}
	})
	f.write("caption-features", n.Part(0, 5, "frames", "features"))
	f.write("caption-encode", n.Part(5, 7, "features", "state"))
	f.write("caption-decode", n.Part(7, 9, "state", "words"))
}

func (f folder) actdetDetect() {
	f.detector("actdet-detect", 800, []string{"persons"}, func(i int) ([]float32, [][][4]float32) {
		pixels, people := applications.Site(seed(i))
		return pixels, [][][4]float32{boxes(people)}
	})
}

// features is how many numbers identity and motion give.
const features = 32

// aspect trains a network that tells one aspect of people, and writes it without its last layer.
func (f folder) aspect(name string, classes int, of func(class int) int) {
	layers := append(training.Look(features), training.Dense(features, classes))
	n := f.person(name, layers, 1500, func(i int) ([]float32, []applications.Object) {
		pixels, people := applications.Site(seed(i))
		for k := range people {
			people[k].Class = of(people[k].Class)
		}
		return pixels, people
	})
	f.write(name, n.Part(0, len(layers)-1, "persons", "features"))
}

func (f folder) actdetIdentity() {
	f.aspect("actdet-identity", len(applications.Roles()), func(class int) int { return class / len(applications.Motions()) })
}

func (f folder) actdetMotion() {
	f.aspect("actdet-motion", len(applications.Motions()), func(class int) int { return class % len(applications.Motions()) })
}

// actdetAction trains on what identity and motion give, added.
func (f folder) actdetAction() {
	identity := f.open("actdet-identity", 3, training.Crop, training.Crop)
	motion := f.open("actdet-motion", 3, training.Crop, training.Crop)
	rng := weights(7)
	n := training.New("actdet-action", []int{features}, []training.Layer{training.Dense(features, 64), training.Dense(64, len(applications.Activities()))}, rng)
	var sums [][]float32
	var activities []int
	for i := range 1000 {
		pixels, people := applications.Site(seed(i))
		for _, o := range people {
			x := crop(pixels, training.Jitter(o.Box, rng))
			sum := motion(x)
			for k, v := range identity(x) {
				sum[k] += v
			}
			sums, activities = append(sums, sum), append(activities, applications.Activity(o.Class))
		}
	}
	n.TrainClasses(2000, func() ([][]float32, []int) { return sums, activities })
	m := n.Model("identity", "label")
	first := m.Graph.Nodes[0]
	m.Graph.Inputs = append(m.Graph.Inputs, onnx.Declare("motion", onnx.Float, -1, features))
	m.Graph.Nodes = append([]*onnx.Node{{Name: "sum", Op: "Add", Inputs: []string{"identity", "motion"}, Outputs: []string{"sum.out"}}}, m.Graph.Nodes...)
	first.Inputs[0] = "sum.out"
	f.write("actdet-action", m)
}
