package applications_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/applications"
	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/gorgonia"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

func declared(t *testing.T) pipelines.Document {
	config, diags := hcl.Load(hcl.LoadOptions{}, ".")
	require.Empty(t, diags)
	require.Empty(t, config.Validate(executors.Signatures(steps.New(steps.Builtin()))))
	return config.Document
}

// TestPlansWithWhatWasMeasured: each of the library's applications is here, with the same networks,
// and has a plan within its objective that is proven to be cheapest; the papers' policies have one
// that costs no less.
func TestPlansWithWhatWasMeasured(t *testing.T) {
	document := declared(t)
	synthetic, err := library.Document()
	require.NoError(t, err)
	require.Len(t, document.Pipelines, len(synthetic.Pipelines))
	for i, p := range document.Pipelines {
		var here, there []string
		for _, m := range p.Modules {
			if m.Model != "" {
				here = append(here, m.Name)
			}
		}
		for _, m := range synthetic.Pipelines[i].Modules {
			there = append(there, m.Name)
		}
		assert.Equal(t, synthetic.Pipelines[i].Name, p.Name)
		assert.Equal(t, there, here)
		problem := plan.Problem{Pipeline: p, Hardware: document.Hardware}
		best := policies.Solve(problem, plan.Options{CostModel: plan.CostShared})
		require.Equal(t, plan.Optimal, best.Status, "%s: %s", p.Name, best.Reason)
		assert.True(t, best.Sound, p.Name)
		assert.LessOrEqual(t, best.Latency, p.SLO, p.Name)
		for _, policy := range []string{plan.PolicyHarpagon, plan.PolicyPiccolo} {
			other := policies.Solve(problem, plan.Options{Policy: policy, CostModel: plan.CostShared})
			assert.GreaterOrEqual(t, other.Cost, best.Cost, "%s, %s", p.Name, policy)
		}
	}
}

// serve runs a pipeline of this folder in this process, and returns a function that asks it and
// gives its outputs by name.
func serve(t *testing.T, pipeline string) func(pixels []float32) map[string]wire.Tensor {
	document := declared(t)
	p := document.Pipelines[slices.IndexFunc(document.Pipelines, func(p pipelines.Pipeline) bool { return p.Name == pipeline })]
	p.SLO = time.Hour // this asks for answers, however busy the machine is
	d := placement.Deployment{Generation: 1, Pipeline: p}
	for _, m := range p.Modules {
		d.Plan.Modules = append(d.Plan.Modules, plan.Module{Name: m.Name, Budget: time.Minute,
			Groups: []plan.Group{{Hardware: "cpu", Batch: 1, Concurrency: 1, Machines: 1, Duration: time.Millisecond, Period: time.Millisecond}}})
		d.Slots = append(d.Slots, placement.Slot{Executor: m.Name, Pipeline: p.Name, Module: m.Name, Batch: 1, Batches: []int{1}, Hardware: "cpu", Host: "here"})
	}
	g := gateway.New(gateway.Options{})
	t.Cleanup(func() { assert.NoError(t, g.Close()) })
	host := &executors.Host{Name: "here", Engines: []executors.Engine{gorgonia.New(), steps.New(steps.Builtin())},
		Dial: func(context.Context, string) (attach.Stream, error) {
			near, far := attach.Pipe()
			go func() { _ = g.Attach(far) }()
			return near, nil
		}}
	for _, s := range d.Slots {
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		go func() { ended <- host.RunExecutor(ctx, executors.NewTask(d, s, ""), executors.Observer{}) }()
		t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
	}
	require.NoError(t, g.Prepare(t.Context(), d))
	require.NoError(t, g.Install(t.Context(), d))
	return func(pixels []float32) map[string]wire.Tensor {
		in := wire.NamedTensor{Name: p.Inputs[0].Name, Tensor: wire.FromFloat32(pixels, p.Inputs[0].Shape...)}
		answer, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: p.Name, Inputs: []wire.NamedTensor{in}})
		require.NoError(t, err)
		outputs := map[string]wire.Tensor{}
		for _, o := range answer.Outputs {
			outputs[o.Name] = o.Tensor
		}
		return outputs
	}
}

// rows are the numbers of a tensor, so many in each.
func rows(t *testing.T, from wire.Tensor, each int) (list [][]float32) {
	values, err := from.Float32s()
	require.NoError(t, err)
	for row := range slices.Chunk(values, each) {
		list = append(list, row)
	}
	return list
}

func best(scores []float32) int { return slices.Index(scores, slices.Max(scores)) }

// score counts answers.
type score struct{ Right, Found, Of, Boxes int }

func (s score) String() string {
	return fmt.Sprintf("%.3f right, %.3f found, of %d; %d boxes", s.accuracy(), float64(s.Found)/float64(s.Of), s.Of, s.Boxes)
}

func (s score) accuracy() float64  { return float64(s.Right) / float64(s.Of) }
func (s score) precision() float64 { return float64(s.Found) / float64(max(s.Boxes, 1)) }

// add finds for each object the box on it, and asks whether what is said of that box is right.
func (s *score) add(objects []applications.Object, boxes [][]float32, right func(o applications.Object, i int) bool) {
	s.Of += len(objects)
	s.Boxes += len(boxes)
	for _, o := range objects {
		i := slices.IndexFunc(boxes, func(b []float32) bool { return overlap(o.Box, b) >= 0.5 })
		if i < 0 {
			continue
		}
		s.Found++
		if right(o, i) {
			s.Right++
		}
	}
}

// overlap is the area of the intersection over that of the union.
func overlap(a [4]float32, b []float32) float32 {
	w, h := min(a[2], b[2])-max(a[0], b[0]), min(a[3], b[3])-max(a[1], b[1])
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h / ((a[2]-a[0])*(a[3]-a[1]) + (b[2]-b[0])*(b[3]-b[1]) - w*h)
}

// unseen is how many pictures that no network was trained on each pipeline is asked about.
const unseen = 100

func TestAccuracyOfTraffic(t *testing.T) {
	ask := serve(t, "traffic")
	var vehicle, pedestrian score
	for i := range uint64(unseen) {
		pixels, vehicles, people := applications.Street(applications.FirstUnseen + i)
		out := ask(pixels)
		kinds, walkers := rows(t, out["vehicles"], len(scene.Kinds())), rows(t, out["pedestrians"], len(applications.Walkers()))
		vehicle.add(vehicles, rows(t, out["vehicle_boxes"], 4), func(o applications.Object, i int) bool { return best(kinds[i]) == o.Class })
		pedestrian.add(people, rows(t, out["pedestrian_boxes"], 4), func(o applications.Object, i int) bool { return best(walkers[i]) == o.Class })
	}
	t.Logf("vehicles %v; pedestrians %v", vehicle, pedestrian)
	for _, s := range []score{vehicle, pedestrian} {
		assert.GreaterOrEqual(t, s.accuracy(), 0.75)
		assert.GreaterOrEqual(t, s.precision(), 0.75)
	}
}

func TestAccuracyOfFace(t *testing.T) {
	ask := serve(t, "face")
	var s score
	for i := range uint64(unseen) {
		pixels, faces := applications.Portraits(applications.FirstUnseen + i)
		out := ask(pixels)
		boxes, points := rows(t, out["boxes"], 4), rows(t, out["keypoints"], 2*len(applications.FacePoints()))
		s.add(faces, boxes, func(o applications.Object, i int) bool {
			sum, truth := 0.0, applications.Within([4]float32(boxes[i]), o.Points)
			for k, v := range truth {
				sum += math.Abs(float64(points[i][k] - v))
			}
			return sum/float64(len(truth)) < 0.05
		})
	}
	t.Logf("faces with keypoints within 5 %% of their size: %v", s)
	assert.GreaterOrEqual(t, s.accuracy(), 0.75)
	assert.GreaterOrEqual(t, s.precision(), 0.8)
}

func TestAccuracyOfPose(t *testing.T) {
	ask := serve(t, "pose")
	s := score{Of: unseen}
	for i := range uint64(unseen) {
		pixels, person := applications.Figure(applications.FirstUnseen + i)
		if best(rows(t, ask(pixels)["pose"], len(applications.Poses()))[0]) == person.Class {
			s.Right++
		}
	}
	t.Logf("poses: %.2f right", s.accuracy())
	assert.GreaterOrEqual(t, s.accuracy(), 0.8)
}

func TestAccuracyOfCaption(t *testing.T) {
	ask := serve(t, "caption")
	words, sentences := score{Of: unseen * applications.Sentence}, score{Of: unseen}
	for i := range uint64(unseen) {
		pixels, truth := applications.Clip(applications.FirstUnseen + i)
		right := 0
		for k, scores := range rows(t, ask(pixels)["caption"], len(applications.Words())) {
			if best(scores) == truth[k] {
				right++
			}
		}
		if words.Right += right; right == len(truth) {
			sentences.Right++
		}
	}
	t.Logf("words: %.3f right, sentences: %.2f", words.accuracy(), sentences.accuracy())
	assert.GreaterOrEqual(t, sentences.accuracy(), 0.6)
}

func TestAccuracyOfActdet(t *testing.T) {
	ask := serve(t, "actdet")
	var s score
	for i := range uint64(unseen) {
		pixels, people := applications.Site(applications.FirstUnseen + i)
		out := ask(pixels)
		activities := rows(t, out["activity"], len(applications.Activities()))
		s.add(people, rows(t, out["boxes"], 4), func(o applications.Object, i int) bool { return best(activities[i]) == applications.Activity(o.Class) })
	}
	t.Logf("activities: %v", s)
	assert.GreaterOrEqual(t, s.accuracy(), 0.8)
	assert.GreaterOrEqual(t, s.precision(), 0.8)
}

func TestModelsAreSmall(t *testing.T) {
	files, err := os.ReadDir("models")
	require.NoError(t, err)
	size := int64(0)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(t, err)
		size += info.Size()
	}
	assert.Less(t, size, int64(2<<20))
}
