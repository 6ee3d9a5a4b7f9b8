// Package traffic is the example that reads road scenes: a detector finds
// vehicles, and two classifiers name the kind and the colour of each. The
// networks are the project's own; see the train folder. The pipeline is
// declared in traffic.hcl.
package traffic

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// FirstUnseen is the first scene seed that no network was trained on.
const FirstUnseen = 1_000_000

// CropSide is the height and width of the pictures that the classifiers see.
const CropSide = 24

// Accuracy is counted over vehicles of which at least minVisible shows.
const (
	minVisible = 0.4
	minOverlap = 0.5 // intersection over union from which a box is a find
)

// Report is how well the networks do on scenes that they were not trained on.
type Report struct {
	Scenes, Objects, Boxes int
	Found                  int // objects with a box of their own
	Kind, Colour           int // of these, named rightly
	Right                  int // found, kind and colour right
	False                  int // boxes on no object, hidden ones included
}

// Accuracy is the share of objects that were found and named rightly.
func (r Report) Accuracy() float64 { return float64(r.Right) / float64(max(r.Objects, 1)) }

// Precision is the share of boxes that are on a vehicle.
func (r Report) Precision() float64 { return 1 - float64(r.False)/float64(max(r.Boxes, 1)) }

// Describe is the report in a few lines.
func (r Report) Describe() string {
	share := func(n, of int) float64 { return float64(n) / float64(max(of, 1)) }
	var b strings.Builder
	fmt.Fprintf(&b, "%d scenes with %d vehicles of which at least %.0f %% shows; %d boxes\n", r.Scenes, r.Objects, 100*minVisible, r.Boxes)
	fmt.Fprintf(&b, "found %.4f, of these kind right %.4f, colour right %.4f\n", share(r.Found, r.Objects), share(r.Kind, r.Found), share(r.Colour, r.Found))
	fmt.Fprintf(&b, "found and all right %.4f, boxes on a vehicle %.4f\n", r.Accuracy(), r.Precision())
	return b.String()
}

// Evaluate runs the modules one after the other, in this process, on n scenes
// from the given seed on. models is the folder of the ONNX files.
func Evaluate(models string, seed uint64, n int) (Report, error) {
	e, err := newEvaluator(models)
	if err != nil {
		return Report{}, err
	}
	defer e.close()
	var r Report
	for i := range n {
		s := scene.Draw(seed + uint64(i))
		found, err := e.run(s)
		if err != nil {
			return r, err
		}
		r.add(s, found)
	}
	return r, nil
}

// Vehicle is one that was found.
type Vehicle struct {
	Kind, Colour string
	Box          [4]float32 // x0, y0, x1, y1 in pixels
}

func (r *Report) add(s scene.Scene, found []Vehicle) {
	r.Scenes++
	r.Boxes += len(found)
	taken := make([]bool, len(found))
	for _, o := range s.Objects {
		best, overlap := -1, minOverlap
		for i, v := range found {
			if iou := intersection(o.Box, v.Box); !taken[i] && iou >= overlap {
				best, overlap = i, iou
			}
		}
		counts := o.Visible >= minVisible
		if counts {
			r.Objects++
		}
		if best < 0 {
			continue
		}
		taken[best] = true
		if !counts {
			continue
		}
		v := found[best]
		r.Found++
		if v.Kind == o.Kind {
			r.Kind++
		}
		if v.Colour == o.Colour {
			r.Colour++
		}
		if v.Kind == o.Kind && v.Colour == o.Colour {
			r.Right++
		}
	}
	for _, t := range taken {
		if !t {
			r.False++
		}
	}
}

// intersection is the area of the intersection over that of the union.
func intersection(a, b [4]float32) float64 {
	w := min(a[2], b[2]) - max(a[0], b[0])
	h := min(a[3], b[3]) - max(a[1], b[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	area := func(b [4]float32) float32 { return (b[2] - b[0]) * (b[3] - b[1]) }
	return float64(w*h) / float64(area(a)+area(b)-w*h)
}

// evaluator holds the modules of the pipeline, loaded in this process.
type evaluator struct {
	detect, boxes, crops, vehicle, colour, kind, hue executors.Instance
	all                                              []executors.Instance
}

func newEvaluator(models string) (*evaluator, error) {
	e := &evaluator{}
	network, step := gorgonia.New(), steps.New(steps.Builtin())
	load := func(to *executors.Instance, engine executors.Engine, m pipelines.Module, batches ...int) error {
		in, err := engine.Load(context.Background(), executors.Model{Module: m, Batches: batches, MaxBatch: batches[len(batches)-1]})
		if err != nil {
			e.close()
			return err
		}
		*to = in
		e.all = append(e.all, in)
		return nil
	}
	file := func(name string) pipelines.Module {
		return pipelines.Module{Name: name, Model: filepath.Join(models, name+".onnx")}
	}
	function := func(name string, parameters map[string]any) pipelines.Module {
		return pipelines.Module{Name: name, Function: name, Parameters: parameters}
	}
	for _, err := range []error{
		load(&e.detect, network, file("detect"), 1),
		load(&e.vehicle, network, file("vehicle"), 8),
		load(&e.colour, network, file("colour"), 8),
		load(&e.boxes, step, function("threshold_boxes", boxParameters()), 1),
		load(&e.crops, step, function("crop", cropParameters()), 1),
		load(&e.kind, step, function("argmax_label", labelParameters(scene.Kinds())), 8),
		load(&e.hue, step, function("argmax_label", labelParameters(scene.Colours())), 8),
	} {
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// The parameters of the processing steps, as in traffic.hcl.
func boxParameters() map[string]any {
	return map[string]any{"stride": 8.0, "threshold": 0.4, "iou": 0.45, "max": 8.0}
}

func cropParameters() map[string]any {
	return map[string]any{"width": float64(CropSide), "height": float64(CropSide), "margin": 0.05}
}

func labelParameters(labels []string) map[string]any {
	var all []any
	for _, l := range labels {
		all = append(all, l)
	}
	return map[string]any{"labels": all}
}

func (e *evaluator) close() {
	for _, in := range e.all {
		_ = in.Close()
	}
}

func (e *evaluator) run(s scene.Scene) ([]Vehicle, error) {
	ctx := context.Background()
	frame := wire.FromFloat32(s.Pixels, 3, scene.Side, scene.Side)
	maps, err := e.detect.Run(ctx, [][]wire.Tensor{{frame}})
	if err != nil {
		return nil, err
	}
	boxes, err := e.boxes.Run(ctx, [][]wire.Tensor{{maps[0][0]}})
	if err != nil {
		return nil, err
	}
	places, err := boxes[0][0].Float32s()
	if err != nil || len(places) == 0 {
		return nil, err
	}
	crops, err := e.crops.Run(ctx, [][]wire.Tensor{{frame, boxes[0][0]}})
	if err != nil {
		return nil, err
	}
	kinds, err := name(ctx, crops[0][0], e.vehicle, e.kind)
	if err != nil {
		return nil, err
	}
	hues, err := name(ctx, crops[0][0], e.colour, e.hue)
	if err != nil {
		return nil, err
	}
	found := make([]Vehicle, len(kinds))
	for i := range found {
		found[i] = Vehicle{Kind: kinds[i], Colour: hues[i], Box: [4]float32(places[4*i : 4*i+4])}
	}
	return found, nil
}

// name classifies each row of crops.
func name(ctx context.Context, crops wire.Tensor, network, label executors.Instance) ([]string, error) {
	n, each := int(crops.Shape[0]), 4*3*CropSide*CropSide
	items := make([][]wire.Tensor, n)
	for i := range items {
		items[i] = []wire.Tensor{{Datatype: "FP32", Shape: []int64{3, CropSide, CropSide}, Data: crops.Data[i*each : (i+1)*each]}}
	}
	scores, err := network.Run(ctx, items)
	if err != nil {
		return nil, err
	}
	labels, err := label.Run(ctx, scores)
	if err != nil {
		return nil, err
	}
	names := make([]string, n)
	for i := range labels {
		text, err := labels[i][0].Strings()
		if err != nil {
			return nil, err
		}
		names[i] = text[0]
	}
	return names, nil
}

// Crop cuts one box out of a scene as the pipeline's crop step does: pixels of
// shape [3, CropSide, CropSide].
func Crop(s scene.Scene, box [4]float32) []float32 {
	step, err := steps.New(steps.Builtin()).Load(context.Background(), executors.Model{
		Module: pipelines.Module{Name: "crop", Function: "crop", Parameters: cropParameters()}, Batches: []int{1}, MaxBatch: 1,
	})
	if err != nil {
		panic(err) // the parameters above are right, or the package is broken
	}
	out, err := step.Run(context.Background(), [][]wire.Tensor{{
		wire.FromFloat32(s.Pixels, 3, scene.Side, scene.Side), wire.FromFloat32(box[:], 1, 4),
	}})
	if err != nil {
		panic(err)
	}
	pixels, err := out[0][0].Float32s()
	if err != nil {
		panic(err)
	}
	return pixels
}
