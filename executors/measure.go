package executors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/harpagon/harpagon/executors/busy"
	"github.com/harpagon/harpagon/executors/feeds"
	"github.com/harpagon/harpagon/executors/turns"
	"github.com/harpagon/harpagon/executors/way"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/check"
	"github.com/harpagon/harpagon/wire"
)

// MeasureMethod counts up when the same runs would give another profile, so
// that points which were kept before are measured anew.
const MeasureMethod = 2

// What a measured duration is: the LowQuantile of the runs, by nearest rank,
// rounded up to whole microseconds and at least ShortestDuration. Others can
// only make a run longer, so a low quantile is what the engine takes by itself;
// the least would hang on one lucky run, the lower quartile does not. The spread
// is what the HighQuantile of all runs takes beyond that: the noise that plans
// are to leave room for. At last larger batches are made to take no less than
// smaller ones: pipelines.Isotonic.
const (
	LowQuantile      = 0.25
	HighQuantile     = 0.95
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
	Cores    int    `json:",omitempty"` // of the device, where it has several

	// Concurrency lists how many batches at a time are measured, each by as many
	// instances; empty: one.
	Concurrency []int `json:",omitempty"`

	// Feeds says for inputs, by name, what the pipeline really sends where the
	// module's signature leaves it open; see feeds.Of.
	Feeds map[string]pipelines.Port

	Outputs    []string           // see Model
	OutputRows map[string]float64 // see Model
	Limits     Limits             // zero fields: DefaultLimits
}

// Limits say how long one batch size is measured: until there are MinRuns that
// took MinTime together, or MaxRuns, or a few that took MaxTime. While others
// use the processor, all sizes go on for up to Patience.
type Limits struct {
	Warmups          int // runs before that do not count
	MinRuns, MaxRuns int
	MinTime, MaxTime time.Duration
	Patience         time.Duration
}

// DefaultLimits measures a batch size for about a third of a second.
func DefaultLimits() Limits {
	return Limits{
		Warmups: 3, MinRuns: 20, MaxRuns: 500, MinTime: 300 * time.Millisecond, MaxTime: 3 * time.Second,
		Patience: 3 * time.Second,
	}
}

// fewRuns is the least for a quantile to mean anything at all.
const fewRuns = 3

// NewMeasureTask takes the task for one module out of a pipeline, with as many
// batches at a time as its plan may use. signatures may be nil.
func NewMeasureTask(p pipelines.Pipeline, module, hardware, device string, signatures check.SignatureFunc) MeasureTask {
	t := MeasureTask{Hardware: hardware, Device: device, Concurrency: p.Plan.Concurrencies(), Feeds: feeds.Of(p, module, signatures)}
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
	switch {
	case len(all) > 0:
	case t.Module.Unbatched:
		all = []int{1}
	default:
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
	if l.Patience == 0 {
		l.Patience = d.Patience
	}
	return l
}

// Measure runs a module by itself on a device and returns the profile points.
// All batch sizes take turns in rounds, so that what disturbs the machine for a
// while disturbs them alike and not one of them. See LowQuantile for what
// becomes of the runs, and rounds.go for those that count.
//
// Points in from are taken over as they are; its rounds are gone on with. tell,
// which may be nil, is told of everything so far after every round, so that an
// interrupted measurement resumes.
//
// The inputs are random but fit the signature; an instance that is a Sampler
// makes its own. While the device also serves, every run takes its turn. Times
// are of the monotonic clock: one that is set meanwhile changes nothing. On an
// error the points in from are returned with it.
func (h *Host) Measure(ctx context.Context, t MeasureTask, from Measured, tell func(Measured)) ([]pipelines.Point, error) {
	begin := time.Now()
	placed, release, err := h.place(ctx, t.Module)
	if err != nil {
		return nil, loadError(t.Module.Name, begin, "%w", err)
	}
	defer release()
	t.Module = placed
	engine, err := h.EngineFor(t.Module)
	if err != nil {
		return nil, err
	}
	queue, err := h.device(t.Device)
	if err != nil {
		return nil, err
	}
	queue.Join()
	defer queue.Leave()
	t = t.Fit(engine)
	m := &measurement{host: h, MeasureTask: t, Measured: from, limits: t.limits(), engine: engine, queue: queue, read: h.Busy, tell: tell}
	if m.read == nil {
		m.read = busy.Read
	}
	m.Points = slices.DeleteFunc(slices.Clone(from.Points), func(p pipelines.Point) bool { return !t.Own(p) })
	missing := t.Missing(m.Points)
	if len(missing) == 0 {
		return m.Points, nil
	}
	for _, n := range t.concurrencies() {
		if m.take(n, missing); len(m.sizes) == 0 {
			continue
		}
		if err := m.run(ctx); err != nil {
			return m.Points, fmt.Errorf("executors: measuring module %q on %s with engine %q %w", t.Module.Name, t.Hardware, engine.Name(), err)
		}
		m.Points = append(m.Points, m.points()...)
	}
	return pipelines.Isotonic(m.Points), nil
}

// take goes on to n batches at a time. What was measured of another number of them
// is done with.
func (m *measurement) take(n int, missing []Setting) {
	m.sizes = nil
	for _, s := range missing {
		if s.Concurrency == n {
			m.sizes = append(m.sizes, s.Batch)
		}
	}
	if len(m.sizes) > 0 && max(m.Measured.Concurrency, 1) != n {
		m.Measured = Measured{Points: m.Points, Concurrency: n}
	}
}

func (t MeasureTask) concurrencies() []int {
	if len(t.Concurrency) == 0 {
		return []int{1}
	}
	return t.Concurrency
}

// Setting is what a profile has a point of.
type Setting struct {
	Batch       int
	Concurrency int // batches at a time
}

// SettingOf is the setting of a point.
func SettingOf(p pipelines.Point) Setting { return Setting{p.Batch, max(p.Concurrency, 1)} }

// Own says whether a point is one that the task asks for.
func (t MeasureTask) Own(p pipelines.Point) bool {
	return p.Hardware == t.Hardware && slices.Contains(t.concurrencies(), SettingOf(p).Concurrency) && slices.Contains(t.batches(), p.Batch)
}

// Missing are the settings that the task asks for and no point tells of.
func (t MeasureTask) Missing(points []pipelines.Point) (all []Setting) {
	for _, n := range t.concurrencies() {
		for _, b := range t.batches() {
			s := Setting{b, n}
			if !slices.ContainsFunc(points, func(p pipelines.Point) bool { return t.Own(p) && SettingOf(p) == s }) {
				all = append(all, s)
			}
		}
	}
	return all
}

// distant is an instance with the way to it.
type distant struct {
	Instance
	to *way.Way
}

func (d distant) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	return d.to.Run(ctx, items)
}

func (d distant) Close() error { return errors.Join(d.to.Close(), d.Instance.Close()) }

// prepared is the instances that run side by side, with a sampled batch of every
// size.
type prepared struct {
	instances []Instance
	items     map[int][][]wire.Tensor
}

// Memory is that of all instances, in bytes.
func (p prepared) Memory() (bytes int64) {
	for _, one := range p.instances {
		bytes += one.Memory()
	}
	return bytes
}

func (p prepared) close() {
	for _, one := range p.instances {
		_ = one.Close()
	}
}

// load loads the module for batch sizes up to n, as an executor does that is to
// run partly filled batches too, so that its memory is that of the executor.
func (m *measurement) load(ctx context.Context, n int) (prepared, error) {
	if n < 1 {
		return prepared{}, fmt.Errorf("a batch has at least one request; correct batches")
	}
	sizes := m.batches()
	sizes = sizes[:slices.Index(sizes, n)+1]
	begin := time.Now()
	p := prepared{items: map[int][][]wire.Tensor{}}
	together := max(m.Measured.Concurrency, 1)
	for range together {
		one, err := m.engine.Load(ctx, Model{
			Module: m.Module, Hardware: m.Hardware, Device: m.Device, Batches: sizes, MaxBatch: n, Concurrency: together,
			Cores:   m.host.coresOf(m.Device),
			Outputs: m.Outputs, OutputRows: m.OutputRows, Feeds: m.Feeds,
		})
		if err != nil {
			p.close()
			return prepared{}, loadError(m.Module.Name, begin, "%w", err)
		}
		p.instances = append(p.instances, one)
	}
	instance := p.instances[0]
	sampler, _ := instance.(Sampler)
	if m.Module.Sized {
		for i, one := range p.instances {
			to, err := way.Open(m.host.Loop, one.Run)
			if err != nil {
				p.close()
				return prepared{}, fmt.Errorf("the way to it cannot be measured: %w", err)
			}
			p.instances[i] = distant{one, to}
		}
	}
	for _, size := range sizes {
		rng := rand.New(rand.NewPCG(uint64(size), 0))
		for range size {
			p.items[size] = append(p.items[size], feeds.Sample(instance.Signature().Inputs, sampler, m.Feeds, rng))
		}
	}
	if err := Check(instance.Signature().Inputs, p.items[n][0]); err != nil {
		p.close()
		return prepared{}, fmt.Errorf("the sampled input does not fit: %w", err)
	}
	return p, nil
}

// timed runs one batch on every instance at once, and says how long the last of
// them took. It waits for its turn like a batch that is due now: before batches with
// time to spare, after those that are late.
func (m *measurement) timed(ctx context.Context, p prepared, size int) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if _, err := m.queue.Acquire(ctx, new(turns.User), time.Now()); err != nil {
		return 0, err
	}
	defer m.queue.Release()
	var all errgroup.Group
	begin := time.Now()
	for _, one := range p.instances[1:] {
		all.Go(func() error {
			_, err := one.Run(ctx, p.items[size])
			return err
		})
	}
	_, err := p.instances[0].Run(ctx, p.items[size])
	err = cmp.Or(err, all.Wait())
	return time.Since(begin), err
}
