package executors

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire"
)

func measured(batches ...int) MeasureTask {
	return MeasureTask{
		Module:   pipelines.Module{Name: "m", Engine: "fake", Batches: batches},
		Hardware: "cpu",
		Device:   "cpu/0",
		Limits:   RoundLimits{Warmups: 2, MinRuns: 20, MaxRuns: 100, MinTime: time.Second, MaxTime: 10 * time.Second, Patience: 10 * time.Second},
	}
}

func TestMeasureStatesALowQuantileAndTheSpread(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		runs := map[int]int{}
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			runs[len(items)]++
			d := time.Duration(10*len(items)) * time.Millisecond
			switch n := runs[len(items)]; {
			case n <= 2:
				d = time.Hour // cold
			case n%25 == 10:
				d = 100 * time.Millisecond // one run in 25 is slow: beyond the high quantile
			case n%10 < 3:
				d += 5 * time.Millisecond // every third disturbed: beyond the low one
			}
			time.Sleep(d)
			return nil
		}
		var told []Measured
		points, err := r.host.Measure(t.Context(), measured(4, 1, 4), Measured{}, func(m Measured) { told = append(told, m) })
		require.NoError(t, err)
		memory := 100. / (1 << 20)
		require.Equal(t, []pipelines.Point{
			{Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 10 * time.Millisecond, Spread: 5 * time.Millisecond, MemoryMiB: memory},
			{Hardware: "cpu", Batch: 4, Concurrency: 1, Duration: 40 * time.Millisecond, Spread: 5 * time.Millisecond, MemoryMiB: memory},
		}, points)
		require.Greater(t, len(told), 3, "after every round")
		require.Equal(t, 2, r.engine.loads)
		require.Equal(t, []int{1, 4}, r.engine.last.Batches, "ready for partly filled batches, like an executor")
		require.Zero(t, r.engine.open)
	})
}

// With several batches at a time, as many instances run side by side, and an
// interrupted measurement goes on at the concurrency that it had come to.
func TestMeasureBatchesAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var running atomic.Int64
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			running.Add(1)
			time.Sleep(time.Microsecond) // until all have begun
			d := time.Duration(10*len(items)) * time.Millisecond * time.Duration(running.Load())
			time.Sleep(d)
			running.Add(-1)
			return nil
		}
		task := measured(1, 4)
		task.Concurrency = []int{1, 2, 4}
		var told []Measured
		points, err := r.host.Measure(t.Context(), task, Measured{}, func(m Measured) { told = append(told, m) })
		require.NoError(t, err)
		require.Len(t, points, 6)
		for _, p := range points {
			require.InDelta(t, float64(10*p.Batch*p.Concurrency), quantity.Millis(p.Duration), 0.01, "batch %d, %d at a time", p.Batch, p.Concurrency)
			require.InDelta(t, 100.*float64(p.Concurrency)/(1<<20), p.MemoryMiB, 1e-9, "of all instances")
		}
		require.Zero(t, r.engine.open)
		require.Empty(t, task.Missing(points))

		half := told[len(told)/2]
		require.Equal(t, 2, half.Concurrency)
		loads := r.engine.loads
		again, err := r.host.Measure(t.Context(), task, half, nil)
		require.NoError(t, err)
		require.Equal(t, points, again)
		require.Less(t, r.engine.loads-loads, loads, "what one at a time takes was known")
	})
}

// TestMeasureFewerAtATime has a device with memory for so many instances, or for so many requests in all of them.
func TestMeasureFewerAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		instances, requests int
		gone                bool // an instance that has no memory ends
		want                []Setting
		missing             string
		notices             []string
	}{
		"three instances": {instances: 3, requests: 100, gone: true, want: []Setting{{1, 1}, {1, 2}, {4, 1}, {4, 2}}, missing: "4 at a time", notices: []string{
			`module "m" cannot run 4 batches at a time on cpu: the child has died`,
		}},
		"one instance": {instances: 1, requests: 100, gone: true, want: []Setting{{1, 1}, {4, 1}}, missing: "2 at a time or more", notices: []string{
			`module "m" cannot run 2 batches at a time on cpu: the child has died`,
		}},
		"six requests": {instances: 9, requests: 6, want: []Setting{{1, 1}, {1, 2}, {1, 4}, {4, 1}}, missing: "batches of 4, 2 at a time or more", notices: []string{
			`module "m" cannot run 2 batches of 4 at a time on cpu: overloaded: no memory`,
		}},
		"three requests": {instances: 9, requests: 3, want: []Setting{{1, 1}, {1, 2}}, missing: "batches of 4; 4 at a time", notices: []string{
			`module "m" cannot run batches of 4 on cpu: overloaded: no memory`,
			`module "m" cannot run 4 batches of 1 at a time on cpu: overloaded: no memory`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				var notices []string
				r.host.Notice = func(line string) { notices = append(notices, line) }
				r.engine.load = func(int) error {
					switch {
					case r.engine.open >= c.instances:
						return errors.New("the child has died")
					case (r.engine.open+1)*r.engine.last.MaxBatch > c.requests:
						return wire.Errorf(wire.CodeOverloaded, "", "no memory")
					}
					return nil
				}
				task := measured(1, 4)
				task.Concurrency = []int{1, 2, 4}
				points, err := r.host.Measure(t.Context(), task, Measured{}, nil)
				require.NoError(t, err)
				var got []Setting
				for _, p := range points {
					got = append(got, SettingOf(p))
				}
				require.ElementsMatch(t, c.want, got)
				require.Len(t, notices, len(c.notices), "%q", notices)
				for i, want := range c.notices {
					require.Contains(t, notices[i], want[:strings.Index(want, ":")])
					require.Contains(t, notices[i], want[strings.LastIndex(want, ":")+2:])
				}
				require.Zero(t, r.engine.open)
				require.Equal(t, c.missing, task.DescribeMissing(points))
			})
		})
	}
}

// What slows the machine down for a while slows all sizes alike, and no size
// alone: the profile stays what it is.
func TestMeasureTakesTurnsAmongSizes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		var order []int
		begin := time.Now()
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			order = append(order, len(items))
			d := time.Duration(10+len(items)) * time.Millisecond
			if at := time.Since(begin); at > time.Second && at < 2500*time.Millisecond {
				d *= 3
			}
			time.Sleep(d)
			return nil
		}
		points, err := r.host.Measure(t.Context(), measured(1, 2, 4, 8), Measured{}, nil)
		require.NoError(t, err)
		for i, b := range []int{1, 2, 4, 8} {
			require.Equal(t, time.Duration(10+b)*time.Millisecond, points[i].Duration)
		}
		changes := 0
		for i := 1; i < len(order); i++ {
			if order[i] != order[i-1] {
				changes++
			}
		}
		require.Greater(t, changes, 25, "ten turns for each of four sizes")
	})
}

func TestMeasureMakesLargerBatchesTakeNoLess(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			time.Sleep(map[int]time.Duration{1: 12, 2: 10, 4: 30}[len(items)] * time.Millisecond)
			return nil
		}
		points, err := r.host.Measure(t.Context(), measured(1, 2, 4), Measured{}, nil)
		require.NoError(t, err)
		require.Equal(t, []time.Duration{10 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond},
			[]time.Duration{points[0].Duration, points[1].Duration, points[2].Duration})
	})
}

// busyness is a machine of two cores on which others use the share that others returns for the
// time since now.
func busyness(r *rig, others func(time.Duration) float64) {
	begin := time.Now()
	var last, spent time.Duration
	r.host.Busy = func() (ProcessorReading, error) {
		for now := time.Since(begin); last < now; last += 10 * time.Millisecond {
			spent += time.Duration(others(last) * float64(10*time.Millisecond))
		}
		return ProcessorReading{At: time.Now(), Cores: 2, All: spent}, nil
	}
}

func TestMeasureWaitsForACalmMachine(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		begin := time.Now()
		disturbed := func(at time.Duration) bool { return at < 2*time.Second }
		busyness(r, func(at time.Duration) float64 {
			if disturbed(at) {
				return 0.9
			}
			return 0.05
		})
		r.engine.run = func(context.Context, [][]wire.Tensor) error {
			if disturbed(time.Since(begin)) {
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		points, err := r.host.Measure(t.Context(), measured(1, 2), Measured{}, nil)
		require.NoError(t, err)
		require.Equal(t, 10*time.Millisecond, points[1].Duration, "of the calm rounds")
		require.Equal(t, 10*time.Millisecond, points[1].Spread, "of all")
		require.Zero(t, points[1].Others)
		require.Greater(t, time.Since(begin), 3*time.Second)

		busyness(r, func(time.Duration) float64 { return 0.9 })
		begin = time.Now()
		points, err = r.host.Measure(t.Context(), measured(1, 2), Measured{}, nil)
		require.NoError(t, err)
		require.InDelta(t, 0.9, points[0].Others, 0.05, "it does not wait for ever, and reports the share")
	})
}

func TestMeasureResumes(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			if len(items) == 4 {
				return wire.Errorf(wire.CodeUnavailable, "m", "killed")
			}
			time.Sleep(time.Millisecond)
			return nil
		}
		var so Measured
		points, err := r.host.Measure(t.Context(), measured(1, 2, 4, 8), Measured{}, func(m Measured) { so = m })
		require.ErrorContains(t, err, `measuring module "m" on cpu with engine "fake" at batch 4`)
		require.ErrorIs(t, err, wire.ErrUnavailable)
		require.Empty(t, points)
		require.Len(t, so.Memory, 2)

		kept, err := json.Marshal(so) // as a heartbeat carries it
		require.NoError(t, err)
		so = Measured{}
		require.NoError(t, json.Unmarshal(kept, &so))
		r.engine.loads = 0
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			time.Sleep(time.Duration(len(items)) * time.Millisecond)
			return nil
		}
		stop, cancel := context.WithCancel(t.Context())
		_, err = r.host.Measure(stop, measured(1, 2, 4, 8), so, func(m Measured) {
			if so = m; len(m.Rounds) == 3 {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 2, r.engine.loads, "what was weighed is not loaded again")

		so.Points = []pipelines.Point{{Hardware: "t4", Batch: 4, Duration: 1}, {Hardware: "cpu", Batch: 8, Concurrency: 2, Duration: 2}, {Hardware: "cpu", Batch: 1, Duration: 500}}
		var gone int
		all, err := r.host.Measure(t.Context(), measured(1, 2, 4, 8), so, func(m Measured) { gone = len(m.Rounds) })
		require.NoError(t, err)
		require.Greater(t, gone, 3)
		require.Len(t, all, 4)
		require.Equal(t, []time.Duration{500, 2 * time.Millisecond, 4 * time.Millisecond, 8 * time.Millisecond},
			[]time.Duration{all[0].Duration, all[1].Duration, all[2].Duration, all[3].Duration}, "what is known stays")
	})
}

func TestMeasureHasItsBounds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		runs := 0
		takes := time.Duration(0)
		r.engine.run = func(context.Context, [][]wire.Tensor) error { runs++; time.Sleep(takes); return nil }
		points, err := r.host.Measure(t.Context(), measured(1), Measured{}, nil)
		require.NoError(t, err)
		require.Equal(t, 102, runs, "at most MaxRuns and the warm-up")
		require.Equal(t, ShortestDuration, points[0].Duration, "nothing is free")

		runs, takes = 0, time.Minute
		_, err = r.host.Measure(t.Context(), measured(1), Measured{}, nil)
		require.NoError(t, err)
		require.Equal(t, 5, runs, "a few, however long they take")
	})
}

func TestMeasureStops(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(100 * time.Millisecond); return nil }
		_, err := r.host.Measure(ctx, measured(1), Measured{}, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, r.engine.open)

		_, err = r.host.Measure(t.Context(), measured(0), Measured{}, nil)
		require.ErrorContains(t, err, "a batch has at least one request")
		r.engine.load = func(int) error { return errors.New("damaged file") }
		_, err = r.host.Measure(t.Context(), measured(1), Measured{}, nil)
		require.ErrorContains(t, err, "damaged file")
		job := measured(1)
		job.Device = "gpu/7"
		_, err = r.host.Measure(t.Context(), job, Measured{}, nil)
		require.ErrorContains(t, err, `no device "gpu/7"`)
		job.Module.Engine = "none"
		_, err = r.host.Measure(t.Context(), job, Measured{}, nil)
		require.ErrorContains(t, err, `needs engine "none"`)
	})
}

func TestMeasureTakesTurnsWithServing(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(10 * time.Millisecond); return nil }
		r.start(task("e1"), Observer{})
		r.accept()
		done := make(chan []pipelines.Point, 1)
		go func() {
			points, _ := r.host.Measure(t.Context(), measured(1), Measured{}, nil)
			done <- points
		}()
		synctest.Wait()
		r.sendDue(time.Now().Add(-time.Hour), vector(2))
		result := r.result()
		require.Equal(t, 10*time.Millisecond, result.Waited)
		require.Equal(t, 10*time.Millisecond, result.Compute)
		require.Equal(t, 10*time.Millisecond, (<-done)[0].Duration, "waiting is not measured")
		r.drain()
		require.NoError(t, <-r.done)
	})
}

func TestMeasureTaskOfAPipeline(t *testing.T) {
	p := traffic()
	signatures := func(m pipelines.Module) (pipelines.Signature, error) {
		switch m.Name {
		case "detect":
			return pipelines.Signature{Outputs: []pipelines.Port{port("boxes", -1, 4)}}, nil
		case "crop":
			return pipelines.Signature{Outputs: []pipelines.Port{port("crops", -1, -1, 8, 8)}}, nil
		case "kind":
			return pipelines.Signature{Inputs: []pipelines.Port{port("x", 3, 8, 8)}, Outputs: []pipelines.Port{port("label", 5)}}, nil
		}
		return pipelines.Signature{}, errors.New("unknown")
	}
	crop := NewMeasureTask(p, "crop", "cpu", "cpu/0", signatures)
	require.Equal(t, "crop", crop.Module.Name)
	require.Equal(t, map[string]pipelines.Port{"image": port("image", 3, 96, 96), "boxes": port("boxes", 4, 4)}, crop.Feeds)
	require.Equal(t, []string{"crops"}, crop.Outputs)
	require.Equal(t, map[string]pipelines.Port{"x": {Name: "x", Datatype: "FP32", Shape: []int64{4, 8, 8}}},
		feedsOf(p, "kind", signatures), "a row at a time")
	require.Empty(t, feedsOf(p, "kind", nil))
	require.True(t, splits(port("crops", 16, 3, 8, 8), pipelines.Signature{Inputs: []pipelines.Port{port("x", 3, 8, 8)}}, "x"), "fixed")
	require.False(t, splits(port("image", 3, 8, 8), pipelines.Signature{Inputs: []pipelines.Port{port("x", 3, 8, 8)}}, "x"))
	require.False(t, splits(port("image", 3, 8, 8), pipelines.Signature{}, "x"))
	require.Equal(t, []int64{3, 96, 96}, feedsOf(p, "detect", nil)["image"].Shape)
	p.Modules[2].Fanout = 9.5
	require.Equal(t, []int64{10, 4}, feedsOf(p, "crop", signatures)["boxes"].Shape)
	p.Modules = append(p.Modules, pipelines.Module{Name: "all", Gather: "detect", Inputs: []pipelines.Binding{{Name: "labels", From: ref("kind", "label")}}})
	require.Equal(t, []int64{10, 5}, feedsOf(p, "all", signatures)["labels"].Shape, "rows that are gathered")
	p.Modules[2].Fanout = 1.8
	require.Equal(t, []int64{2, 5}, feedsOf(p, "all", signatures)["labels"].Shape, "as many as the fan-out makes")
	p.Modules[2].Fanout, p.Modules[2].Most, p.Modules[2].When = 0.3, 1, ref("detect", "boxes")
	require.Equal(t, []int64{1, 5}, feedsOf(p, "all", signatures)["labels"].Shape, "of a condition")
	require.Equal(t, []int{1, 2, 4, 8, 16, 32}, crop.batches())
	require.Equal(t, DefaultRoundLimits(), crop.Limits.WithDefaults())
}

func TestFeedsAreTypical(t *testing.T) {
	p := traffic()
	p.Inputs[0].Shape = []int64{3, -1, -1}
	p.Inputs[0].Typical = []int64{3, 640, 480}
	signatures := func(m pipelines.Module) (pipelines.Signature, error) {
		return pipelines.Signature{Inputs: []pipelines.Port{port("x", -1, -1), {Name: "boxes", Datatype: "FP16", Shape: []int64{-1, 4}}}, Outputs: []pipelines.Port{port("crops", -1, -1, 8, 8)}}, nil
	}
	require.Equal(t, []int64{3, 640, 480}, feedsOf(p, "detect", nil)["image"].Shape)
	p.Module("crop").Typical = map[string][]int64{"boxes": {7, 4}, "image": {3, 8, 8}}
	require.Equal(t, map[string]pipelines.Port{"image": port("image", 3, 8, 8), "boxes": {Name: "boxes", Datatype: "FP16", Shape: []int64{7, 4}}},
		feedsOf(p, "crop", signatures), "the module goes before the pipeline")
	p.Inputs[0].Typical = nil
	require.Equal(t, []int64{3, -1, -1}, feedsOf(p, "detect", nil)["image"].Shape)
}

// open is an instance with one input of every datatype.
type open struct{ Instance }

func (open) Signature() pipelines.Signature {
	var sig pipelines.Signature
	for _, d := range []string{"FP32", "FP64", "FP16", "BF16", "BOOL", "INT8", "UINT8", "INT16", "UINT32", "INT64", "BYTES"} {
		sig.Inputs = append(sig.Inputs, pipelines.Port{Name: d, Datatype: d, Shape: []int64{-1, 2, -1}})
	}
	sig.Inputs = append(sig.Inputs, pipelines.Port{Name: "any"}, pipelines.Port{Name: "fed"})
	return sig
}

func TestSamplesFitTheSignature(t *testing.T) {
	fed := map[string]pipelines.Port{"fed": {Datatype: "INT64", Shape: []int64{7}}, "FP32": {Shape: []int64{5, 9, -1}}}
	got := SampleInputs(open{}.Signature().Inputs, nil, fed, rand.New(rand.NewPCG(1, 1)))
	require.NoError(t, Check(open{}.Signature().Inputs, got))
	require.Equal(t, []int64{5, 2, 32}, got[0].Shape)
	require.Equal(t, []int64{4, 2, 32}, got[1].Shape)
	require.Equal(t, []int64{1}, got[len(got)-2].Shape)
	last := got[len(got)-1]
	require.Equal(t, []int64{7}, last.Shape)
	require.Equal(t, "INT64", last.Datatype)
	for _, tensor := range got {
		require.NoError(t, tensor.Validate())
	}
	numbers, err := got[0].Float32s()
	require.NoError(t, err)
	require.NotEqual(t, numbers[0], numbers[1])
}

// once is an engine that loads slowly, and reports what its models would hold for smaller
// batches.
type once struct {
	*fake
	kept *int
}

func (once) LoadsOnce() {}

func (o once) Load(ctx context.Context, m Model) (Instance, error) {
	in, err := o.fake.Load(ctx, m)
	return grades{in, o.kept}, err
}

type grades struct {
	Instance
	kept *int
}

func (g grades) Keep() {
	*g.kept++
	_ = g.Close()
}

func (grades) MemoryFor(size int) int64 { return int64(size) << 20 }

// All sizes are measured on one instance where it reports what each would hold; other numbers of batches at a time
// have as many of their own.
func TestMeasureLoadsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		kept := 0
		r.host.Engines = []Engine{once{r.engine, &kept}}
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			time.Sleep(time.Duration(len(items)) * time.Millisecond)
			return nil
		}
		task := measured(1, 2, 4, 8, 16, 32, 64)
		points, err := r.host.Measure(t.Context(), task, Measured{}, nil)
		require.NoError(t, err)
		require.Len(t, points, 7)
		for _, p := range points {
			require.Equal(t, time.Duration(p.Batch)*time.Millisecond, p.Duration)
			require.InDelta(t, p.Batch, p.MemoryMiB, 1e-9)
		}
		require.Equal(t, 1, r.engine.loads)
		require.Equal(t, 1, kept, "to serve")
		again, err := r.host.Measure(t.Context(), task, Measured{Points: points}, nil)
		require.NoError(t, err)
		require.Equal(t, points, again)
		require.Equal(t, 1, r.engine.loads, "nothing is measured that is known")

		task.Concurrency = []int{1, 2}
		_, err = r.host.Measure(t.Context(), task, Measured{Points: points}, nil)
		require.NoError(t, err)
		require.Equal(t, 3, r.engine.loads)
		require.Zero(t, r.engine.open)

		before := kept
		r.engine.run = func(context.Context, [][]wire.Tensor) error { return wire.Errorf(wire.CodeUnavailable, "m", "killed") }
		_, err = r.host.Measure(t.Context(), task, Measured{}, nil)
		require.Error(t, err)
		require.Equal(t, before, kept, "what failed does not serve")
		require.Zero(t, r.engine.open)
	})
}
