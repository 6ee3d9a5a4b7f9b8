package executors

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire"
)

// named is an engine of which only the name matters.
type named struct {
	Engine
	name string
}

func (n named) Name() string { return n.name }

func TestEngineFor(t *testing.T) {
	h := &Host{Name: "a", Engines: []Engine{named{name: "gorgonia"}, named{name: "function"}, named{name: "emulated"}, named{name: "onnxruntime"}}}
	for _, c := range []struct {
		module pipelines.Module
		want   string
	}{
		{pipelines.Module{Function: "crop", Engine: "onnxruntime"}, "function"},
		{pipelines.Module{Model: "a.onnx", Engine: "onnxruntime"}, "onnxruntime"},
		{pipelines.Module{Model: "a.onnx", Engine: "auto"}, "onnxruntime"},
		{pipelines.Module{Model: "a.onnx"}, "onnxruntime"},
		{pipelines.Module{Model: "a.onnx", Engine: "gorgonia"}, "gorgonia"},
		{pipelines.Module{}, "emulated"},
	} {
		e, err := h.EngineFor(c.module)
		require.NoError(t, err)
		require.Equal(t, c.want, e.Name())
	}
	_, err := h.EngineFor(pipelines.Module{Name: "m", Engine: "tpu"})
	require.ErrorContains(t, err, `module "m" needs engine "tpu", but host "a" has only: emulated, function, gorgonia, onnxruntime`)

	e, err := h.engineOf(Task{Slot: placement.Slot{Engine: "onnxruntime"}, Module: pipelines.Module{Model: "a.onnx"}})
	require.NoError(t, err)
	require.Equal(t, "onnxruntime", e.Name(), "the slot was placed for it")
	h.ForceEngine = "emulated"
	e, err = h.engineOf(Task{Slot: placement.Slot{Engine: "onnxruntime"}, Module: pipelines.Module{Function: "crop"}})
	require.NoError(t, err)
	require.Equal(t, "emulated", e.Name())
}

func TestUnknownDeviceOrEngine(t *testing.T) {
	r := newRig(t)
	job := task("e1")
	job.Slot.Device = "gpu/0"
	require.ErrorContains(t, r.host.RunExecutor(t.Context(), job, Observer{}), `host "a" has no device "gpu/0"`)
	job = task("e1")
	job.Module.Engine = "other"
	require.ErrorContains(t, r.host.RunExecutor(t.Context(), job, Observer{}), `needs engine "other"`)
	_, ok := r.host.Status("e1")
	require.False(t, ok)
}

func ref(module, port string) pipelines.Ref { return pipelines.Ref{Module: module, Port: port} }

func traffic() pipelines.Pipeline {
	return pipelines.Pipeline{
		Name:   "traffic",
		Inputs: []pipelines.Port{{Name: "frame", Datatype: "FP32", Shape: []int64{3, 96, 96}}},
		Modules: []pipelines.Module{
			{Name: "detect", Inputs: []pipelines.Binding{{Name: "image", From: ref("", "frame")}}},
			{Name: "crop", Inputs: []pipelines.Binding{{Name: "image", From: ref("", "frame")}, {Name: "boxes", From: ref("detect", "boxes")}}},
			{Name: "kind", Scatter: true, Fanout: 1.5, Inputs: []pipelines.Binding{{Name: "x", From: ref("crop", "crops")}}},
			{Name: "colour", Scatter: true, Fanout: 1.8, Inputs: []pipelines.Binding{{Name: "x", From: ref("crop", "crops")}}},
		},
		Outputs: []pipelines.Output{{Name: "boxes", From: ref("detect", "boxes")}, {Name: "scores", From: ref("detect", "scores")}, {Name: "kind", From: ref("kind", "label")}},
	}
}

func TestDemand(t *testing.T) {
	outputs, rows := demand(traffic(), "detect")
	require.Equal(t, []string{"boxes", "scores"}, outputs)
	require.Empty(t, rows)
	outputs, rows = demand(traffic(), "crop")
	require.Equal(t, []string{"crops"}, outputs)
	require.Equal(t, map[string]float64{"crops": 1.8}, rows)
	outputs, _ = demand(traffic(), "colour")
	require.Empty(t, outputs)
	p := traffic()
	p.Modules = append(p.Modules,
		pipelines.Module{Name: "plate", Scatter: true, Fanout: 0.3, Most: 1, When: ref("detect", "near"), Inputs: p.Modules[1].Inputs},
		pipelines.Module{Name: "far", Scatter: true, Fanout: 0.7, Most: 1, When: ref("detect", "near"), Else: true, Inputs: p.Modules[1].Inputs})
	outputs, rows = demand(p, "detect")
	require.Equal(t, []string{"boxes", "near", "scores"}, outputs)
	require.Len(t, rows, 1)
	require.InDelta(t, 0.3, rows["near"], 1e-9)
}

func TestTaskOfADeploymentSurvivesJSON(t *testing.T) {
	d := placement.Deployment{
		Pipeline: traffic(),
		Plan:     plan.Plan{Modules: []plan.Module{{Name: "crop", Groups: []plan.Group{{Concurrency: 1}, {Concurrency: 3}}}}},
	}
	d.Pipeline.Modules[1].Parameters = map[string]any{"width": 32.0, "labels": []any{"a"}}
	slot := placement.Slot{Executor: "crop-1", Module: "crop", Group: 1, Hardware: "cpu", Batch: 4, Batches: []int{4, 2}}
	job := NewTask(d, slot, "127.0.0.1:1")
	require.Equal(t, "crop", job.Module.Name)
	m := job.model()
	require.Equal(t, 3, m.Concurrency)
	require.Equal(t, []int{2, 4}, m.Batches)
	require.Equal(t, 4, m.MaxBatch)
	require.Equal(t, []string{"crops"}, m.Outputs)

	text, err := json.Marshal(job)
	require.NoError(t, err)
	var back Task
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, job, back)
}

func TestBatchesDefaultToTheProfile(t *testing.T) {
	job := Task{Slot: placement.Slot{Hardware: "cpu"}, Module: pipelines.Module{Profile: pipelines.Profile{Points: []pipelines.Point{
		{Hardware: "cpu", Batch: 8}, {Hardware: "cpu", Batch: 2}, {Hardware: "t4", Batch: 32},
	}}}}
	require.Equal(t, []int{2, 8}, job.batches())
	job.Slot.Batch = 4
	require.Equal(t, []int{2, 4}, job.batches())
	job.Slot.Batches = []int{4, 1}
	require.Equal(t, []int{1, 4}, job.batches())
	require.Equal(t, []int{1}, Task{}.batches())
}

func TestBackoff(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 5 * time.Second}
	for n, want := range []time.Duration{0, 1, 2, 4, 5, 5} {
		require.Equal(t, want*time.Second, b.After(n))
	}
	require.Equal(t, 50*time.Millisecond, Backoff{}.After(1))
	require.Equal(t, time.Second, Backoff{}.After(1000))
}

func TestDevicesTellHowTheyAreUsed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.host.Name = "h"
		r.host.Devices = []placement.Device{{Host: "h", Name: "cpu/1", Hardware: "cpu"}, {Host: "h", Name: "cpu/0", Hardware: "cpu", Memory: 1000}}
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(20 * time.Millisecond); return nil }
		r.start(task("e1"), Observer{})
		r.accept()
		for range 3 {
			r.send(vector(2), vector(2))
			r.result()
		}
		require.Equal(t, []DeviceStatus{
			{Host: "h", Device: "cpu/0", Hardware: "cpu", Capacity: 1000, Memory: 100, Executors: 1, Batches: 3, Items: 6, Busy: 60 * time.Millisecond},
			{Host: "h", Device: "cpu/1", Hardware: "cpu"},
		}, r.host.DeviceStatuses())
		r.drain()
		require.NoError(t, <-r.done)
		left := r.host.DeviceStatuses()[0]
		require.Zero(t, left.Executors)
		require.Zero(t, left.Memory)
		require.EqualValues(t, 3, left.Batches, "what has run stays counted")
	})
}

func TestWhatThePipelineSendsIsKnownForWarmingUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		job := NewTask(placement.Deployment{Pipeline: pipelines.Pipeline{
			Name: "p", Inputs: []pipelines.Port{{Name: "image", Datatype: "FP32", Shape: []int64{3, 48, 320}}},
			Modules: []pipelines.Module{{
				Name: "m", Engine: "fake", Profile: pipelines.Profile{Points: []pipelines.Point{{Hardware: "cpu", Batch: 1}}},
				Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "image"}}},
			}},
		}}, task("e1").Slot, "")
		require.Empty(t, job.Source.Modules[0].Profile)
		require.Len(t, job.Module.Profile.Points, 1)
		r.start(job, Observer{})
		r.accept()
		require.Equal(t, map[string]pipelines.Port{"x": {Name: "x", Datatype: "FP32", Shape: []int64{3, 48, 320}}}, r.engine.last.Feeds)
		r.drain()
		require.NoError(t, <-r.done)
	})
}
