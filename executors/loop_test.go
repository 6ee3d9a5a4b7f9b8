package executors_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// attached runs an executor of an emulated module and returns the gateway's
// end of every stream that it opens.
func attached(t testing.TB, o emulated.Options, observer executors.Observer) (streams chan attach.Stream, cancel func(), done chan error) {
	if o.Duration == nil {
		o.Duration = func(executors.Model, int) time.Duration { return 0 }
	}
	streams, done = make(chan attach.Stream, 8), make(chan error, 1)
	host := &executors.Host{
		Name:    "a",
		Devices: []placement.Device{{Name: "v100/0"}},
		Engines: []executors.Engine{emulated.New(o)},
		Dial: func(context.Context, string) (attach.Stream, error) {
			ours, theirs := attach.Pipe()
			streams <- ours
			return theirs, nil
		},
	}
	task := executors.Task{
		Slot:    placement.Slot{Executor: "e1", Module: "m", Hardware: "v100", Device: "v100/0", Batch: 8},
		Module:  pipelines.Module{Name: "m", Inputs: []pipelines.Binding{{Name: "x"}}},
		Outputs: []string{"y"},
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { done <- host.RunExecutor(ctx, task, observer) }()
	return streams, cancel, done
}

func hello(t testing.TB, s attach.Stream) attach.Stream {
	m, err := s.Recv()
	require.NoError(t, err)
	require.NotNil(t, m.Hello)
	return s
}

func batch(id uint64) *attach.Message {
	return &attach.Message{Batch: &attach.Batch{ID: id, Items: [][]wire.Tensor{{wire.FromFloat32([]float32{1})}}}}
}

// Every batch that is sent gets exactly one result, in order, whatever the
// engine does.
func TestEveryBatchIsAnsweredOnceAcrossACrash(t *testing.T) {
	reloads := 0
	streams, _, done := attached(t, emulated.Options{Fault: emulated.CrashOn(50)}, executors.Observer{
		Reloading: func(executors.Status, int, error) { reloads++ },
	})
	s := hello(t, <-streams)
	const n = 200
	for id := range uint64(n) {
		require.NoError(t, s.Send(batch(id)))
	}
	require.NoError(t, s.Send(&attach.Message{Drain: &attach.Drain{}}))
	failed := 0
	for id := range uint64(n) {
		m, err := s.Recv()
		require.NoError(t, err)
		if m.Ready != nil {
			require.Equal(t, 1, failed)
			m, err = s.Recv()
			require.NoError(t, err)
		}
		require.Equal(t, id, m.Result.ID)
		if m.Result.Err != nil {
			require.ErrorIs(t, m.Result.Err, wire.ErrUnavailable)
			failed++
		}
	}
	_, err := s.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, <-done)
	require.Equal(t, 1, failed)
	require.Equal(t, 1, reloads)
}

// The stream of one process ends like that between hosts.
func TestOverThePipe(t *testing.T) {
	streams, cancel, done := attached(t, emulated.Options{}, executors.Observer{})
	require.NoError(t, hello(t, <-streams).Close())
	s := hello(t, <-streams)
	require.NoError(t, s.Send(batch(7)))
	m, err := s.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 7, m.Result.ID)
	cancel()
	m, err = s.Recv()
	require.NoError(t, err)
	require.NotNil(t, m.Drain)
	require.NoError(t, s.Close())
	require.NoError(t, <-done)
}

func TestFunctionsAreMeasuredWithTheirOwnSamples(t *testing.T) {
	registry := steps.Builtin()
	engine := steps.New(registry)
	known := executors.Signatures(engine)
	p := pipelines.Pipeline{
		Inputs: []pipelines.Port{{Name: "frame", Datatype: "FP32", Shape: []int64{3, 24, 24}}},
		Modules: []pipelines.Module{
			{Name: "boxes", Function: "threshold_boxes", Parameters: map[string]any{"stride": 8.0}},
			{Name: "crop", Function: "crop", Parameters: map[string]any{"width": 8.0, "height": 8.0},
				Inputs: []pipelines.Binding{{Name: "image", From: pipelines.Ref{Port: "frame"}}, {Name: "boxes", From: pipelines.Ref{Module: "boxes", Port: "boxes"}}}},
			{Name: "label", Function: "argmax_label", Parameters: map[string]any{"labels": []any{"a", "b"}}},
		},
	}
	host := &executors.Host{Engines: []executors.Engine{engine}}
	for _, m := range p.Modules {
		task := executors.NewMeasureTask(p, m.Name, "cpu", "cpu/0", known)
		task.Batches, task.Limits = []int{1, 3}, executors.RoundLimits{MinRuns: 3, MaxRuns: 3, Patience: 1}
		points, err := host.Measure(t.Context(), task, executors.Measured{}, nil)
		require.NoError(t, err)
		require.Len(t, points, 2)
		require.GreaterOrEqual(t, points[0].Duration, executors.ShortestDuration)
	}
}

// BenchmarkEmulated is one batch of one request there and back within the
// process, with an engine that takes no time.
func BenchmarkEmulated(b *testing.B) {
	streams, _, done := attached(b, emulated.Options{}, executors.Observer{})
	s := hello(b, <-streams)
	message := batch(1)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Send(message); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Recv(); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, s.Send(&attach.Message{Drain: &attach.Drain{}}))
	require.NoError(b, <-done)
}
