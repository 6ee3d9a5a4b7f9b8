package emulated

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func profiled(points ...pipelines.Point) executors.Model {
	return executors.Model{
		Module:   pipelines.Module{Name: "detect", Profile: pipelines.Profile{Points: points}},
		Hardware: "v100",
		MaxBatch: 4,
		Outputs:  []string{"label"},
	}
}

// slept records what the engine would have slept.
func slept(into *[]time.Duration) func(context.Context, time.Duration) error {
	return func(_ context.Context, d time.Duration) error {
		*into = append(*into, d)
		return nil
	}
}

func load(t *testing.T, o Options, m executors.Model) executors.Instance {
	t.Helper()
	instance, err := New(o).Load(t.Context(), m)
	require.NoError(t, err)
	t.Cleanup(func() { _ = instance.Close() })
	return instance
}

func items(n int) [][]wire.Tensor { return make([][]wire.Tensor, n) }

func TestDurationIsThatOfTheSmallestProfiledBatch(t *testing.T) {
	m := profiled(
		pipelines.Point{Hardware: "v100", Batch: 4, Duration: 40 * time.Millisecond, MemoryMiB: 3},
		pipelines.Point{Hardware: "v100", Batch: 1, Duration: 10 * time.Millisecond, MemoryMiB: 2},
		pipelines.Point{Hardware: "t4", Batch: 2, Duration: time.Hour, MemoryMiB: 900},
		pipelines.Point{Hardware: "v100", Batch: 2, Concurrency: 2, Duration: time.Minute},
	)
	var got []time.Duration
	i := load(t, Options{Sleep: slept(&got)}, m)
	for n := 1; n <= 4; n++ {
		answers, err := i.Run(t.Context(), items(n))
		require.NoError(t, err)
		require.Len(t, answers, n)
	}
	ms := time.Millisecond
	require.Equal(t, []time.Duration{10 * ms, 40 * ms, 40 * ms, 40 * ms}, got)
	require.EqualValues(t, 3<<20, i.Memory())

	m.Concurrency, m.MaxBatch = 2, 2
	got = nil
	_, err := load(t, Options{Sleep: slept(&got)}, m).Run(t.Context(), items(1))
	require.NoError(t, err)
	require.Equal(t, []time.Duration{time.Minute}, got)
}

// A query is not padded, and its size may lie beyond what was measured here.
func TestDurationOfAQueryLiesOnTheLine(t *testing.T) {
	m := profiled(
		pipelines.Point{Hardware: "v100", Batch: 1, Concurrency: 1, Duration: 10 * time.Millisecond},
		pipelines.Point{Hardware: "v100", Batch: 3, Concurrency: 1, Duration: 20 * time.Millisecond},
	)
	m.Module.Sized = true
	var got []time.Duration
	i := load(t, Options{Sleep: slept(&got)}, m)
	for n := 1; n <= 4; n++ {
		_, err := i.Run(t.Context(), items(n))
		require.NoError(t, err)
	}
	require.Equal(t, []time.Duration{10 * time.Millisecond, 15 * time.Millisecond, 20 * time.Millisecond, 25 * time.Millisecond}, got)
}

func TestLoadNamesWhatTheProfileLacks(t *testing.T) {
	m := profiled(pipelines.Point{Hardware: "v100", Batch: 2, Duration: time.Millisecond})
	_, err := New(Options{}).Load(t.Context(), m)
	require.ErrorContains(t, err, `module "detect" has no point for hardware "v100", batch 3 or more`)
	m.Hardware = "cpu"
	_, err = New(Options{}).Load(t.Context(), m)
	require.ErrorContains(t, err, `hardware "cpu", batch 1 or more, concurrency 1`)
}

func TestBatchSizesOutsideWhatWasLoadedAreInvalid(t *testing.T) {
	i := load(t, Options{}, profiled(pipelines.Point{Hardware: "v100", Batch: 4}))
	for _, n := range []int{0, 5} {
		_, err := i.Run(t.Context(), items(n))
		require.ErrorIs(t, err, wire.ErrInvalid)
	}
}

func TestOutputsOfUnknownModules(t *testing.T) {
	m := profiled(pipelines.Point{Hardware: "v100", Batch: 4})
	m.Module.Inputs = []pipelines.Binding{{Name: "image"}}
	m.Outputs = []string{"boxes", "label", "scores"}
	m.OutputRows = map[string]float64{"boxes": 1.5, "scores": 1.5}
	i := load(t, Options{}, m)
	require.Equal(t, pipelines.Signature{
		Inputs: []pipelines.Port{{Name: "image"}},
		Outputs: []pipelines.Port{
			{Name: "boxes", Datatype: "FP32", Shape: []int64{-1, 1}},
			{Name: "label", Datatype: "FP32", Shape: []int64{1}},
			{Name: "scores", Datatype: "FP32", Shape: []int64{-1, 1}},
		},
	}, i.Signature())
	answers, err := i.Run(t.Context(), items(4))
	require.NoError(t, err)
	for n, rows := range []int64{1, 2, 1, 2} {
		require.Equal(t, []int64{rows, 1}, answers[n][0].Shape)
		require.Len(t, answers[n][0].Data, int(4*rows))
		require.Equal(t, []int64{1}, answers[n][1].Shape)
		require.Equal(t, []int64{rows, 1}, answers[n][2].Shape, "outputs with one mean agree")
		require.NotZero(t, answers[n][0].Data[0], "a condition holds")
	}
}

func TestOutputsOfKnownModulesHaveTheirShapes(t *testing.T) {
	sig := pipelines.Signature{Outputs: []pipelines.Port{
		{Name: "crops", Datatype: "FP32", Shape: []int64{-1, 3, 8, -1}},
		{Name: "label", Datatype: "BYTES", Shape: []int64{}},
		{Name: "count", Datatype: "INT64", Shape: []int64{2}},
	}}
	m := profiled(pipelines.Point{Hardware: "v100", Batch: 4})
	m.OutputRows = map[string]float64{"crops": 0}
	signatures := func(pipelines.Module) (pipelines.Signature, error) { return sig, nil }
	answers, err := load(t, Options{Signatures: signatures}, m).Run(t.Context(), items(1))
	require.NoError(t, err)
	require.Equal(t, []wire.Tensor{
		{Datatype: "FP32", Shape: []int64{0, 3, 8, 1}, Data: []byte{}},
		{Datatype: "BYTES", Shape: []int64{}, Data: make([]byte, 4)},
		{Datatype: "INT64", Shape: []int64{2}, Data: make([]byte, 16)},
	}, answers[0])

	failing := func(pipelines.Module) (pipelines.Signature, error) { return sig, errors.New("no file") }
	require.Equal(t, "label", load(t, Options{Signatures: failing}, m).Signature().Outputs[0].Name)
}

func TestRowsFollowTheMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(0, 20).Draw(t, "mean")
		n := rapid.IntRange(1, 200).Draw(t, "n")
		sig := pipelines.Signature{Outputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{-1, 1}}}}
		o := newOutputs(sig, map[string]float64{"x": mean}, false, false)
		total := int64(0)
		for _, answer := range o.batch(items(n)) {
			k := answer[0].Shape[0]
			require.GreaterOrEqual(t, k, int64(math.Floor(mean)))
			require.LessOrEqual(t, k, int64(math.Ceil(mean))+1)
			total += k
		}
		require.InDelta(t, mean*float64(n), float64(total), 1+1e-6)
	})
}

func TestEchoDistinguishesRequests(t *testing.T) {
	m := profiled(pipelines.Point{Hardware: "v100", Batch: 4})
	in := [][]wire.Tensor{{{Data: []byte("a")}}, {{Data: []byte("b")}}}
	answers, err := load(t, Options{Echo: true}, m).Run(t.Context(), in)
	require.NoError(t, err)
	require.NotEqual(t, answers[0][0].Data, answers[1][0].Data)
	require.NotEqual(t, Checksum(in[0]), Checksum(in[1]))
}

func TestNoiseStaysWithinItsBounds(t *testing.T) {
	m := profiled(pipelines.Point{Hardware: "v100", Batch: 4, Duration: time.Second})
	var got []time.Duration
	i := load(t, Options{Sleep: slept(&got), Noise: 0.1}, m)
	var sum time.Duration
	for range 500 {
		_, err := i.Run(t.Context(), items(1))
		require.NoError(t, err)
		last := got[len(got)-1]
		require.InDelta(t, time.Second, last, float64(101*time.Millisecond))
		sum += last
	}
	require.InDelta(t, time.Second, sum/500, float64(time.Millisecond))
}

func TestFaults(t *testing.T) {
	m := profiled(pipelines.Point{Hardware: "v100", Batch: 4})
	i := load(t, Options{Fault: failOn(2)}, m)
	for n, want := range []error{nil, wire.ErrInternal, nil} {
		_, err := i.Run(t.Context(), items(1))
		require.ErrorIs(t, err, want, n)
	}

	engine := New(Options{Fault: CrashOn(2)})
	for _, want := range [][]error{{nil, wire.ErrUnavailable, wire.ErrUnavailable}, {nil, nil}} {
		i, err := engine.Load(t.Context(), m)
		require.NoError(t, err)
		for n := range want {
			_, err := i.Run(t.Context(), items(1))
			require.ErrorIs(t, err, want[n], n)
		}
	}
}

func TestCloseBreaksTheInstance(t *testing.T) {
	i := load(t, Options{}, profiled(pipelines.Point{Hardware: "v100", Batch: 4}))
	require.NoError(t, i.Close())
	require.NoError(t, i.Close())
	_, err := i.Run(t.Context(), items(1))
	require.ErrorIs(t, err, wire.ErrUnavailable)
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		i := load(t, Options{}, profiled(pipelines.Point{Hardware: "v100", Batch: 4, Duration: time.Hour}))
		_, err := i.Run(ctx, items(1))
		require.ErrorIs(t, err, wire.ErrCanceled)
	})
}

func BenchmarkZeroDuration(b *testing.B) {
	m := profiled(pipelines.Point{Hardware: "v100", Batch: 4})
	i, err := New(Options{}).Load(b.Context(), m)
	require.NoError(b, err)
	batch := items(4)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.Run(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
