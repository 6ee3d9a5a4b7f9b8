package executors

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// What a measured duration is: the MeasureQuantile of the runs, by nearest
// rank, times 1 + MeasureMargin, rounded up to whole microseconds and at least
// ShortestDuration. The quantile is high because the planner takes a duration
// for a promise; the margin covers what a quiet profile run does not see of a
// busy machine. Durations are kept as measured: a larger batch may come out
// faster than a smaller one.
const (
	MeasureQuantile  = 0.95
	MeasureMargin    = 0.10
	ShortestDuration = time.Microsecond
)

// DefaultBatches are measured where a module does not say which.
func DefaultBatches() []int { return []int{1, 2, 4, 8, 16, 32} }

// MeasureTask says what to measure. It travels as JSON.
type MeasureTask struct {
	Module   pipelines.Module
	Hardware string
	Device   string // of the host
	Batches  []int  // empty: the module's, or else DefaultBatches

	// Feeds says for inputs, by name, what the pipeline really sends where the
	// module's signature leaves it open; see the function Feeds.
	Feeds map[string]pipelines.Port

	Outputs    []string           // see Model
	OutputRows map[string]float64 // see Model
	Limits     Limits             // zero fields: DefaultLimits
}

// Limits say how long one batch size is measured: until there are MinRuns and
// MinTime has passed, or MaxRuns, or MaxTime has passed and there are a few.
type Limits struct {
	Warmups          int // runs before that do not count
	MinRuns, MaxRuns int
	MinTime, MaxTime time.Duration
}

// DefaultLimits measures a batch size for about a third of a second.
func DefaultLimits() Limits {
	return Limits{Warmups: 3, MinRuns: 20, MaxRuns: 500, MinTime: 300 * time.Millisecond, MaxTime: 3 * time.Second}
}

// fewRuns is the least for a quantile to mean anything at all.
const fewRuns = 3

// NewMeasureTask takes the task for one module out of a pipeline. signatures
// may be nil.
func NewMeasureTask(p pipelines.Pipeline, module, hardware, device string, signatures pipelines.SignatureFunc) MeasureTask {
	t := MeasureTask{Hardware: hardware, Device: device, Feeds: Feeds(p, module, signatures)}
	for _, m := range p.Modules {
		if m.Name == module {
			t.Module = m
		}
	}
	t.Outputs, t.OutputRows = Demand(p, module)
	return t
}

func (t MeasureTask) batches() []int {
	all := slices.Clone(t.Batches)
	if len(all) == 0 {
		all = slices.Clone(t.Module.Batches)
	}
	if len(all) == 0 {
		all = DefaultBatches()
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (t MeasureTask) limits() Limits {
	l, d := t.Limits, DefaultLimits()
	if l.Warmups == 0 {
		l.Warmups = d.Warmups
	}
	if l.MinRuns == 0 {
		l.MinRuns = d.MinRuns
	}
	if l.MaxRuns == 0 {
		l.MaxRuns = d.MaxRuns
	}
	if l.MinTime == 0 {
		l.MinTime = d.MinTime
	}
	if l.MaxTime == 0 {
		l.MaxTime = d.MaxTime
	}
	return l
}

// Measure runs a module by itself on a device, one batch size after the other
// in rising order, and returns the profile points. Points in from are taken
// over and not measured again; onPoint, which may be nil, is told of every new
// one as soon as it is there, so that an interrupted measurement resumes.
//
// The inputs are random but fit the signature; an instance that is a Sampler
// makes its own. While the device also serves, every run takes its turn. On an
// error the points so far are returned with it.
func (h *Host) Measure(ctx context.Context, t MeasureTask, from []pipelines.Point, onPoint func(pipelines.Point)) ([]pipelines.Point, error) {
	engine, err := h.EngineFor(t.Module)
	if err != nil {
		return nil, err
	}
	queue, err := h.device(t.Device)
	if err != nil {
		return nil, err
	}
	var points []pipelines.Point
	batches := t.batches()
	for n, batch := range batches {
		if i := slices.IndexFunc(from, t.is(batch)); i >= 0 {
			points = append(points, from[i])
			continue
		}
		point, err := t.measure(ctx, engine, queue, batches[:n+1])
		if err != nil {
			return points, fmt.Errorf("executors: measuring module %q on %s with engine %q at batch %d: %w", t.Module.Name, t.Hardware, engine.Name(), batch, err)
		}
		points = append(points, point)
		if onPoint != nil {
			onPoint(point)
		}
	}
	return points, nil
}

// is finds the task's own point of a batch size.
func (t MeasureTask) is(batch int) func(pipelines.Point) bool {
	return func(p pipelines.Point) bool {
		return p.Hardware == t.Hardware && p.Batch == batch && max(p.Concurrency, 1) == 1
	}
}

// measure takes the last of the batch sizes. It loads the module for all of
// them, as an executor does that is to run partly filled batches too, so that
// its memory is that of the executor.
func (t MeasureTask) measure(ctx context.Context, engine Engine, queue *device, sizes []int) (pipelines.Point, error) {
	batch := sizes[len(sizes)-1]
	if batch < 1 {
		return pipelines.Point{}, fmt.Errorf("a batch has at least one request; correct batches")
	}
	instance, err := engine.Load(ctx, Model{
		Module: t.Module, Hardware: t.Hardware, Device: t.Device, Batches: slices.Clone(sizes), MaxBatch: batch, Concurrency: 1,
		Outputs: t.Outputs, OutputRows: t.OutputRows, Feeds: t.Feeds,
	})
	if err != nil {
		return pipelines.Point{}, err
	}
	defer instance.Close()
	rng := rand.New(rand.NewPCG(uint64(batch), 0))
	items := make([][]wire.Tensor, batch)
	for i := range items {
		items[i] = sample(instance, t.Feeds, rng)
	}
	if err := Check(instance.Signature().Inputs, items[0]); err != nil {
		return pipelines.Point{}, fmt.Errorf("the sampled input does not fit: %w", err)
	}
	runs, err := t.limits().repeat(ctx, &executor{task: Task{Module: t.Module}}, queue, func() error {
		_, err := instance.Run(ctx, items)
		return err
	})
	if err != nil {
		return pipelines.Point{}, err
	}
	return pipelines.Point{
		Hardware:    t.Hardware,
		Batch:       batch,
		Concurrency: 1,
		Duration:    promise(runs),
		MemoryMiB:   float64(instance.Memory()) / (1 << 20),
	}, nil
}

// repeat times run until the limits say that it is enough.
func (l Limits) repeat(ctx context.Context, who *executor, queue *device, run func() error) ([]time.Duration, error) {
	var runs []time.Duration
	var begin time.Time
	for n := -l.Warmups; ; n++ {
		if n == 0 {
			begin = time.Now()
		}
		if n > 0 && l.enough(n, time.Since(begin)) {
			return runs, nil
		}
		took, err := timed(ctx, who, queue, run)
		if err != nil {
			return nil, err
		}
		if n >= 0 {
			runs = append(runs, took)
		}
	}
}

func (l Limits) enough(runs int, passed time.Duration) bool {
	return runs >= l.MaxRuns ||
		runs >= l.MinRuns && passed >= l.MinTime ||
		runs >= fewRuns && passed >= l.MaxTime
}

// timed waits for its turn like a batch that is due now: before batches with
// time to spare, after those that are late.
func timed(ctx context.Context, who *executor, queue *device, run func() error) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if _, err := queue.acquire(ctx, who, time.Now()); err != nil {
		return 0, err
	}
	defer queue.release()
	begin := time.Now()
	err := run()
	return time.Since(begin), err
}

// promise is the duration that the profile states for these runs.
func promise(runs []time.Duration) time.Duration {
	slices.Sort(runs)
	rank := int(math.Ceil(MeasureQuantile*float64(len(runs)))) - 1
	d := time.Duration(float64(runs[max(rank, 0)]) * (1 + MeasureMargin))
	if rest := d % time.Microsecond; rest > 0 {
		d += time.Microsecond - rest
	}
	return max(d, ShortestDuration)
}
