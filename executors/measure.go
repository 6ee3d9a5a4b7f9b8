package executors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// MeasureMethod counts up when the same runs would give another profile, so
// that points which were kept before are measured again.
const MeasureMethod = 2

// DefaultBatches are measured where a module declares none.
func DefaultBatches() []int { return []int{1, 2, 4, 8, 16, 32} }

// MeasureTask states what to measure. It travels as JSON.
type MeasureTask struct {
	Module   pipelines.Module
	Hardware string
	Device   string // of the host
	Batches  []int  // empty: the module's, or else DefaultBatches
	Cores    int    `json:",omitempty"` // of the device, where it has several

	// Concurrency lists how many batches at a time are measured, each by as many
	// instances; empty: one.
	Concurrency []int `json:",omitempty"`

	// Feeds is, by input name, what the pipeline really sends where the module's signature leaves
	// it open; see Of.
	Feeds map[string]pipelines.Port

	Outputs    []string           // see Model
	OutputRows map[string]float64 // see Model
	Limits     RoundLimits        // zero fields: DefaultRoundLimits
}

// NewMeasureTask takes the task for one module out of a pipeline, with as many
// batches at a time as its plan may use. signatures may be nil.
func NewMeasureTask(p pipelines.Pipeline, module, hardware, device string, signatures pipelines.SignatureFunc) MeasureTask {
	t := MeasureTask{Hardware: hardware, Device: device, Concurrency: p.Plan.Concurrencies(), Feeds: feedsOf(p, module, signatures)}
	for _, m := range p.Modules {
		if m.Name == module {
			t.Module = m
		}
	}
	t.Outputs, t.OutputRows = demand(p, module)
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

// Measure runs a module by itself on a device and returns the profile points.
// All batch sizes take turns in rounds, so that what disturbs the machine for a
// while disturbs them alike and not one of them. See Measurement
// for what becomes of the runs.
//
// Points in from are taken over as they are; its rounds are gone on with. tell, which may be
// nil, receives everything so far after every round, so that an interrupted measurement can
// resume. Where the device has too little memory for the largest sizes, the others are
// measured; where the memory does not suffice for the concurrency, a lower one is measured.
// Host.Notice receives either.
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
	engine, err := h.engineFor(t.Module)
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
	l := &loader{host: h, MeasureTask: t, engine: engine, queue: queue}
	m := measurement{Measured: from, Hardware: t.Hardware, Limits: t.Limits.WithDefaults(), Load: l.load, Busy: h.Busy, Progress: tell}
	_, m.Once = bare(engine).(LoadsOnce)
	if m.Busy == nil {
		m.Busy = ReadProcessors
	}
	m.Points = slices.DeleteFunc(slices.Clone(from.Points), func(p pipelines.Point) bool { return !t.Wants(p) })
	missing := t.Missing(m.Points)
	if len(missing) == 0 {
		return m.Points, nil
	}
	most := math.MaxInt // batches larger than that do not fit even with fewer at a time
	for _, n := range slices.Sorted(slices.Values(t.concurrencies())) {
		var sizes []int
		for _, s := range missing {
			if s.Concurrency == n && s.Batch <= most {
				sizes = append(sizes, s.Batch)
			}
		}
		if len(sizes) == 0 {
			continue
		}
		err := m.Run(ctx, n, sizes)
		for errors.Is(err, wire.ErrOverloaded) && len(sizes)+len(m.Points) > 1 { // what fits serves
			h.tell("module %q cannot run %s on %s: %v", t.Module.Name, Setting{sizes[len(sizes)-1], n}.Describe(), t.Hardware, err)
			most = sizes[len(sizes)-1] - 1
			if sizes, err = sizes[:len(sizes)-1], nil; len(sizes) > 0 {
				err = m.Run(ctx, n, sizes)
			}
		}
		if err != nil && n > 1 && len(m.Points) > 0 && ctx.Err() == nil { // fewer at a time serve
			h.tell("module %q cannot run %d batches at a time on %s: %v", t.Module.Name, n, t.Hardware, err)
			break
		}
		if err != nil {
			return m.Points, fmt.Errorf("executors: measuring module %q on %s with engine %q %w", t.Module.Name, t.Hardware, engine.Name(), err)
		}
	}
	return pipelines.IsotonicPoints(m.Points), nil
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

// Describe is the setting in words, such as "2 batches of 8 at a time".
func (s Setting) Describe() string {
	if s.Concurrency > 1 {
		return fmt.Sprintf("%d batches of %d at a time", s.Concurrency, s.Batch)
	}
	return fmt.Sprintf("batches of %d", s.Batch)
}

// SettingOf is the setting of a point.
func SettingOf(p pipelines.Point) Setting { return Setting{p.Batch, max(p.Concurrency, 1)} }

// Wants reports whether a point is one of the task's.
func (t MeasureTask) Wants(p pipelines.Point) bool {
	return p.Hardware == t.Hardware && slices.Contains(t.concurrencies(), SettingOf(p).Concurrency) && slices.Contains(t.batches(), p.Batch)
}

// Missing are the settings of the task that no point covers.
func (t MeasureTask) Missing(points []pipelines.Point) (all []Setting) {
	for _, n := range t.concurrencies() {
		for _, b := range t.batches() {
			s := Setting{b, n}
			if !slices.ContainsFunc(points, func(p pipelines.Point) bool { return t.Wants(p) && SettingOf(p) == s }) {
				all = append(all, s)
			}
		}
	}
	return all
}

// DescribeMissing names those settings, such as "batches of 16, 32; 4 at a time"; empty for none. Sizes that are missing
// with fewer at a time are not named again.
func (t MeasureTask) DescribeMissing(points []pipelines.Point) string {
	var all []string
	named := map[int]bool{}
	levels := t.concurrencies()
	for i, n := range levels {
		var sizes []string
		for _, s := range t.Missing(points) {
			if s.Concurrency == n && !named[s.Batch] {
				sizes, named[s.Batch] = append(sizes, strconv.Itoa(s.Batch)), true
			}
		}
		if len(sizes) == 0 {
			continue
		}
		var parts []string
		if n == 1 || len(named) < len(t.batches()) {
			parts = append(parts, "batches of "+strings.Join(sizes, ", "))
		}
		if n > 1 {
			parts = append(parts, fmt.Sprintf("%d at a time", n))
			if i < len(levels)-1 {
				parts[len(parts)-1] += " or more"
			}
		}
		all = append(all, strings.Join(parts, ", "))
	}
	return strings.Join(all, "; ")
}

// distant is an instance at the far end of a RoundTrip.
type distant struct {
	Instance
	to *RoundTrip
}

func (d distant) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	return d.to.Run(ctx, items)
}

func (d distant) Close() error { return errors.Join(d.to.Close(), d.Instance.Close()) }

// prepared is the instances that run side by side, with a sampled batch of every
// size.
type prepared struct {
	queue     *deviceQueue
	instances []Instance
	items     map[int][][]wire.Tensor
}

// MemoryFor is that of all instances, in bytes.
func (p prepared) MemoryFor(size int) (bytes int64) {
	for _, one := range p.instances {
		if g, ok := one.(Graded); ok {
			bytes += g.MemoryFor(size)
			continue
		}
		bytes += one.Memory()
	}
	return bytes
}

// Close closes all of them, or keeps those that may serve.
func (p prepared) Close(keep bool) {
	for _, one := range p.instances {
		if k, ok := one.(Keeper); ok && keep {
			k.Keep()
			continue
		}
		_ = one.Close()
	}
}

// loader loads what is measured.
type loader struct {
	MeasureTask
	host   *Host
	engine Engine
	queue  *deviceQueue
}

// load loads the module, as often as it is to run side by side, for batch sizes up to n, as an executor does that is to
// run partly filled batches too, so that its memory is that of the executor.
func (l *loader) load(ctx context.Context, together, n int) (Instances, error) {
	if n < 1 {
		return nil, fmt.Errorf("a batch has at least one request; correct batches")
	}
	sizes := l.batches()
	sizes = sizes[:slices.Index(sizes, n)+1]
	begin := time.Now()
	p := prepared{queue: l.queue, items: map[int][][]wire.Tensor{}}
	for range together {
		one, err := l.engine.Load(ctx, Model{
			Module: l.Module, Hardware: l.Hardware, Device: l.Device, Batches: sizes, MaxBatch: n, Concurrency: together,
			Cores:   l.host.coresOf(l.Device),
			Outputs: l.Outputs, OutputRows: l.OutputRows, Feeds: l.Feeds,
		})
		if err != nil {
			p.Close(false)
			return nil, loadError(l.Module.Name, begin, "%w", err)
		}
		p.instances = append(p.instances, one)
	}
	instance := p.instances[0]
	sampler, _ := instance.(Sampler)
	if l.Module.Sized {
		for i, one := range p.instances {
			to, err := OpenRoundTrip(l.host.Loop, one.Run)
			if err != nil {
				p.Close(false)
				return nil, fmt.Errorf("the way to it cannot be measured: %w", err)
			}
			p.instances[i] = distant{one, to}
		}
	}
	for _, size := range sizes {
		rng := rand.New(rand.NewPCG(uint64(size), 0))
		for range size {
			p.items[size] = append(p.items[size], SampleInputs(instance.Signature().Inputs, sampler, l.Feeds, rng))
		}
	}
	if err := Check(instance.Signature().Inputs, p.items[n][0]); err != nil {
		p.Close(false)
		return nil, fmt.Errorf("the sampled input does not fit: %w", err)
	}
	return p, nil
}

// Run runs one batch on every instance at once, and reports how long the last of
// them took. It waits for its turn like a batch that is due now: before batches with
// time to spare, after those that are late.
func (p prepared) Run(ctx context.Context, size int) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if _, err := p.queue.Acquire(ctx, new(queueUser), time.Now()); err != nil {
		return 0, err
	}
	defer p.queue.Release()
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

// Limiter is an Engine that returns the largest batch that a module's model takes without
// loading it; 0 where there is no limit or it is unknown.
type Limiter interface {
	Limit(m pipelines.Module) int
}

// Fit is the task without batch sizes that its model does not take; see
// MeasureTask.Fit. The error is a *LoadError where the module's files are not to be
// had; other errors are Measure's to report.
func (h *Host) Fit(ctx context.Context, t MeasureTask) (MeasureTask, error) {
	begin := time.Now()
	placed, release, err := h.place(ctx, t.Module)
	if err != nil {
		return t, loadError(t.Module.Name, begin, "%w", err)
	}
	defer release()
	engine, err := h.engineFor(placed)
	if err != nil {
		return t, nil
	}
	here := t
	here.Module = placed
	t.Batches = here.Fit(engine).Batches
	return t, nil
}

// Fit leaves out of a task's batch sizes, where its module declares none, those of the default
// ones that are more than its model takes. 1 stays always.
func (t MeasureTask) Fit(e Engine) MeasureTask {
	if len(t.Batches) > 0 || len(t.Module.Batches) > 0 {
		return t
	}
	limit := 0
	if l, ok := bare(e).(Limiter); ok {
		limit = l.Limit(t.Module)
	}
	if limit > 0 {
		t.Batches = slices.DeleteFunc(t.batches(), func(n int) bool { return n > max(limit, 1) })
	}
	return t
}

// Loopback opens both ends of a stream such as gateways and executors of a host talk
// over; it ends with ctx.
type Loopback func(ctx context.Context) (gateway, executor attach.Stream, err error)

// Compute answers items[i][j], input j of item i, as an engine does.
type Compute func(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error)

// RoundTrip leads to a Compute and back. It is used by one goroutine at a time.
type RoundTrip struct {
	near attach.Stream
	stop context.CancelFunc
	sent uint64
}

// OpenRoundTrip puts compute at the far end of what open gives; nil is a stream in memory.
func OpenRoundTrip(open Loopback, compute Compute) (*RoundTrip, error) {
	if open == nil {
		open = func(context.Context) (a, b attach.Stream, err error) {
			a, b = attach.Pipe()
			return a, b, nil
		}
	}
	life, stop := context.WithCancel(context.Background())
	near, far, err := open(life)
	if err != nil {
		stop()
		return nil, err
	}
	go serveRoundTrip(life, far, compute)
	return &RoundTrip{near: near, stop: stop}, nil
}

// serveRoundTrip answers batches until the stream ends.
func serveRoundTrip(ctx context.Context, far attach.Stream, compute Compute) {
	defer far.Close()
	for {
		m, err := far.Recv()
		if err != nil || m.Batch == nil {
			return
		}
		r := &attach.Result{ID: m.Batch.ID}
		r.Items, err = compute(ctx, m.Batch.Items)
		if err != nil && !errors.As(err, &r.Err) {
			r.Err = wire.Errorf(wire.CodeInternal, "", "%v", err)
		}
		if far.Send(&attach.Message{Result: r}) != nil {
			return
		}
	}
}

// Run sends a query of the items and waits for its answer.
func (w *RoundTrip) Run(_ context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	query, err := stack(items)
	if err != nil {
		return nil, err
	}
	rows := make([][]wire.Tensor, len(items))
	for _, t := range query {
		cut, err := wire.Rows(t)
		if err != nil {
			return nil, err
		}
		for i := range cut {
			rows[i] = append(rows[i], cut[i])
		}
	}
	w.sent++
	if err := w.near.Send(&attach.Message{Batch: &attach.Batch{ID: w.sent, Items: rows}}); err != nil {
		return nil, err
	}
	m, err := w.near.Recv()
	switch {
	case err != nil:
		return nil, err
	case m.Result == nil:
		return nil, errors.New("executors: what came back is no result")
	case m.Result.Err != nil:
		return nil, m.Result.Err
	}
	_, err = stack(m.Result.Items)
	return m.Result.Items, err
}

// stack is a query of the items: one tensor for each input or output.
func stack(items [][]wire.Tensor) ([]wire.Tensor, error) {
	all := make([]wire.Tensor, len(items[0]))
	for j := range all {
		column := make([]wire.Tensor, len(items))
		for i := range items {
			column[i] = items[i][j]
		}
		t, err := wire.Stack(column)
		if err != nil {
			return nil, err
		}
		all[j] = t
	}
	return all, nil
}

// Close closes the stream.
func (w *RoundTrip) Close() error {
	w.stop()
	return w.near.Close()
}
