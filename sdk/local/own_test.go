//go:build !noserver

package local_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/exact"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/wire"
)

// doubler is an engine of a program's own: every module doubles its input x.
type doubler struct{}

func (doubler) Name() string    { return "doubler" }
func (doubler) Version() string { return "1" }

func (doubler) Load(context.Context, executors.Model) (executors.Instance, error) {
	return doubler{}, nil
}

func (doubler) Signature() pipelines.Signature {
	four := func(name string) []pipelines.Port {
		return []pipelines.Port{{Name: name, Datatype: "FP32", Shape: []int64{4}}}
	}
	return pipelines.Signature{Inputs: four("x"), Outputs: four("y")}
}

func (doubler) Memory() int64 { return 0 }
func (doubler) Close() error  { return nil }

func (doubler) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	var answers [][]wire.Tensor
	for _, item := range items {
		x, err := item[0].Float32s()
		if err != nil {
			return nil, err
		}
		y := slices.Clone(x)
		for i := range y {
			y[i] *= 2
		}
		answers = append(answers, []wire.Tensor{wire.FromFloat32(y, 4)})
	}
	return answers, nil
}

// fifo is a dispatch policy of a program's own: the first request starts first, alone, on
// any executor that idles.
type fifo struct {
	queue []dispatch.RequestID
	idle  []dispatch.Event // of executors, as they came up
	group map[dispatch.ExecutorID]dispatch.Event
	begun *atomic.Int64
}

func (*fifo) Name() string       { return "acme/fifo" }
func (f *fifo) Len() int         { return len(f.queue) }
func (f *fifo) Describe() string { return fmt.Sprintf("%d requests wait", len(f.queue)) }

func (f *fifo) Step(_ dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	switch ev.Kind {
	case dispatch.Arrive:
		f.queue = append(f.queue, ev.Request.ID)
	case dispatch.Cancel:
		f.queue = slices.DeleteFunc(f.queue, func(id dispatch.RequestID) bool { return id == ev.Request.ID })
	case dispatch.ExecutorUp:
		f.group[ev.Executor] = ev
		f.idle = append(f.idle, ev)
	case dispatch.ExecutorFree:
		f.idle = append(f.idle, f.group[ev.Executor])
	case dispatch.ExecutorGone:
		f.idle = slices.DeleteFunc(f.idle, func(up dispatch.Event) bool { return up.Executor == ev.Executor })
	}
	for len(f.queue) > 0 && len(f.idle) > 0 {
		up := f.idle[0]
		out = append(out, dispatch.Action{Act: dispatch.Start, Executor: up.Executor, Group: up.Group, Batch: []dispatch.RequestID{f.queue[0]}})
		f.queue, f.idle = f.queue[1:], f.idle[1:]
		f.begun.Add(1)
	}
	return out
}

// counted is a program's own planner policy: exact, with a count of its calls.
type counted struct {
	plan.Policy
	asked *atomic.Int64
}

func (c counted) Solve(p *plan.Prepared) (plan.Plan, error) {
	c.asked.Add(1)
	return c.Policy.Solve(p)
}

// twice is a pipeline of one module.
func twice() *pipelines.Document {
	return &pipelines.Document{
		Hardware: []pipelines.Hardware{{Name: "cpu", Price: 0.05}},
		Pipelines: []pipelines.Pipeline{{
			Name: "twice", SLO: 5 * time.Second, Rate: 2, Dispatch: "acme/fifo", Plan: pipelines.Planning{Policy: "acme/counted"},
			Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{4}}},
			Modules: []pipelines.Module{{Name: "double", Engine: "doubler", Fanout: 1, Batches: []int{1, 2}, Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}}},
			Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "double", Port: "y"}}},
		}},
	}
}

// A program brings an engine, a dispatch policy and a planner policy, and a pipeline names all.
func TestAProgramBringsItsOwn(t *testing.T) {
	var begun, asked atomic.Int64
	policies := scheduler.Policies{
		Plan: map[string]plan.Policy{"acme/counted": counted{exact.Policy{}, &asked}},
		Dispatch: factory.Policies{{Name: "acme/fifo", Groups: func(factory.Module) (dispatch.Policy, error) {
			return &fifo{group: map[dispatch.ExecutorID]dispatch.Event{}, begun: &begun}, nil
		}}},
	}
	o := local.Options{
		Document: twice(), StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true, Temporal: local.Temporal, Progress: func(s string) { t.Log(s) },
		Engines: []executors.Engine{doubler{}}, Policies: policies,
	}
	for _, bad := range []struct {
		change func(*local.Options)
		want   string
	}{
		{func(o *local.Options) { o.Policies.Dispatch = nil }, `no dispatch policy "acme/fifo"`},
		{func(o *local.Options) { o.Policies.Plan = nil }, `no planner policy "acme/counted"`},
		{func(o *local.Options) { o.Engines = append(o.Engines, doubler{}) }, `an engine "doubler" already`},
	} {
		refused := o
		bad.change(&refused)
		_, err := local.Start(t.Context(), refused)
		require.ErrorContains(t, err, bad.want)
	}
	s, err := local.Start(t.Context(), o)
	require.NoError(t, err)
	defer s.Close()
	assert.Equal(t, "acme/counted", s.Services[0].Policy)
	assert.Equal(t, "acme/fifo", s.Services[0].Dispatch)
	r, err := s.Client().Infer(t.Context(), "twice", sdk.Inputs{"x": sdk.Float32([]float32{1, 2, 3, 4}, 4)})
	require.NoError(t, err)
	y, err := r.Tensor("y")
	require.NoError(t, err)
	got, err := y.Float32s()
	require.NoError(t, err)
	assert.Equal(t, []float32{2, 4, 6, 8}, got)
	assert.Positive(t, begun.Load())
	assert.Positive(t, asked.Load())
}

// A program with an engine of its own.
func ExampleStart_engine() {
	system, err := local.Start(context.Background(), local.Options{Files: []string{"twice.hcl"}, Engines: []executors.Engine{doubler{}}})
	if err != nil {
		log.Fatal(err)
	}
	defer system.Close()
}
