package executors

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

const (
	passes = 10 // over all batch sizes, each with its share of the runs

	// roundTime is the least that a round lasts: processor times are counted in ticks of 10 ms,
	// too coarse for less.
	roundTime = 250 * time.Millisecond
)

// Measured is how far a measurement is. It travels as JSON.
type Measured struct {
	Points []pipelines.Point // that are known

	// What is under way is of Concurrency batches at a time; 0 means 1.
	Concurrency int           `json:",omitempty"`
	Memory      map[int]int64 `json:",omitempty"` // bytes, by batch size
	Rounds      []Round       `json:",omitempty"`
}

// Round is a stretch of time in which every batch size had its turn.
type Round struct {
	Runs   map[int][]time.Duration // by batch size
	Others float64                 // cores that others used; 0 when unknown
	Cores  int                     // of the machine; 0 when unknown
}

// Instances are loaded for batches of up to some size, as many as batches are
// measured at a time.
type Instances interface {
	// Run runs one batch of that size on each at once, and reports how long the last
	// of them took.
	Run(ctx context.Context, size int) (time.Duration, error)
	// MemoryFor is that of all, in bytes, for batches of up to a size, as far as they distinguish
	// sizes.
	MemoryFor(size int) int64
	// Close frees them. With keep, they may serve instead.
	Close(keep bool)
}

// measurement is one under way.
type measurement struct {
	Measured
	Hardware string      // kind that points are of
	Limits   RoundLimits // without zero fields; see RoundLimits.WithDefaults

	// Load loads as many instances as batches are measured at a time, for batches of
	// up to a size.
	Load     func(ctx context.Context, together, size int) (Instances, error)
	Once     bool                             // an instance for the largest size reports the memory of the others
	Busy     func() (ProcessorReading, error) // how much of the processors is used
	Progress func(Measured)                   // after every step; may be nil

	sizes []int // rising
}

// Run measures batch sizes, which rise, with so many batches at a time, and adds
// their points. What was under way of another number of batches at a time is done
// with. After an error, which names the batch size, the points are those from before.
func (m *measurement) Run(ctx context.Context, concurrency int, sizes []int) error {
	m.sizes = sizes
	if max(m.Concurrency, 1) != concurrency {
		m.Measured = Measured{Points: m.Points, Concurrency: concurrency}
	}
	if m.Memory == nil {
		m.Memory = map[int]int64{}
	}
	largest := m.sizes[len(m.sizes)-1]
	for _, size := range m.sizes {
		if _, known := m.Memory[size]; size != largest && (known || m.Once) {
			continue
		}
		if err := m.measureSize(ctx, size, size == largest); err != nil {
			return err
		}
	}
	m.Points = append(m.Points, m.points()...)
	return nil
}

// measureSize loads the module for a batch size and notes its memory. With rounds it
// goes on to measure all sizes on that instance.
func (m *measurement) measureSize(ctx context.Context, size int, rounds bool) error {
	p, err := m.Load(ctx, max(m.Concurrency, 1), size)
	if err != nil {
		return at(size, err)
	}
	measured := false
	defer func() { p.Close(measured) }()
	warm := []int{size}
	if rounds {
		warm = m.sizes
	}
	for _, n := range warm {
		for range m.Limits.Warmups {
			if _, err := p.Run(ctx, n); err != nil {
				return at(n, err)
			}
		}
	}
	m.Memory[size] = p.MemoryFor(size)
	if m.Once {
		for _, n := range m.sizes {
			m.Memory[n] = p.MemoryFor(n)
		}
	}
	m.report()
	if rounds {
		err = m.rounds(ctx, p)
		measured = err == nil
	}
	return err
}

func at(size int, err error) error { return fmt.Errorf("at batch %d: %w", size, err) }

func (m *measurement) report() {
	if m.Progress != nil {
		so := m.Measured
		so.Memory = maps.Clone(so.Memory) // it grows; rounds stay as they are
		m.Progress(so)
	}
}

// rounds goes on until all sizes have enough runs, and then until half of the
// rounds were calm or patience ends.
func (m *measurement) rounds(ctx context.Context, p Instances) error {
	begin := time.Now()
	for {
		enough := m.enough()
		if enough && (m.undisturbed() || time.Since(begin) >= m.Limits.Patience) {
			return nil
		}
		r, err := m.round(ctx, p, enough)
		if err != nil {
			return err
		}
		m.Rounds = append(m.Rounds, r)
		m.report()
	}
}

// round is one or more passes. In every other one the sizes come in falling
// order. Sizes that have enough runs are left out, unless all have.
func (m *measurement) round(ctx context.Context, p Instances, all bool) (Round, error) {
	r := Round{Runs: map[int][]time.Duration{}}
	before, errBefore := m.Busy()
	begin := time.Now()
	for pass := len(m.Rounds); ; pass++ {
		ran := false
		for i := range m.sizes {
			size := m.sizes[i]
			if pass%2 == 1 {
				size = m.sizes[len(m.sizes)-1-i]
			}
			if !all && m.Limits.enough(append(m.runs(size, m.Rounds), r.Runs[size]...)) {
				continue
			}
			ran = true
			turn, err := m.turn(ctx, p, size)
			if err != nil {
				return r, at(size, err)
			}
			if !all || len(r.Runs[size]) == 0 { // in patience a share a round will do
				r.Runs[size] = append(r.Runs[size], turn...)
			}
		}
		if !ran || time.Since(begin) >= roundTime {
			break
		}
	}
	after, errAfter := m.Busy()
	if use := after.Since(before); errBefore == nil && errAfter == nil && use.Known() {
		r.Others, r.Cores = use.Others, use.Cores
	}
	return r, nil
}

// turn is the share of a batch size in a pass: at least one run.
func (m *measurement) turn(ctx context.Context, p Instances, size int) ([]time.Duration, error) {
	var runs []time.Duration
	share := RoundLimits{
		MinRuns: (m.Limits.MinRuns + passes - 1) / passes, MaxRuns: (m.Limits.MaxRuns + passes - 1) / passes,
		MinTime: m.Limits.MinTime / passes, MaxTime: m.Limits.MaxTime / passes,
	}
	for !share.reached(runs, 1) {
		took, err := p.Run(ctx, size)
		if err != nil {
			return nil, err
		}
		runs = append(runs, took)
	}
	return runs, nil
}

func (m *measurement) enough() bool {
	return !slices.ContainsFunc(m.sizes, func(size int) bool { return !m.Limits.enough(m.runs(size, m.Rounds)) })
}

func (m *measurement) runs(size int, rounds []Round) []time.Duration {
	var all []time.Duration
	for _, r := range rounds {
		all = append(all, r.Runs[size]...)
	}
	return all
}

// RoundLimits bound how long one batch size is measured: until there are MinRuns that took
// MinTime together, or MaxRuns, or a few that took MaxTime. While others use the processor, all
// sizes go on for up to Patience.
type RoundLimits struct {
	Warmups          int // runs before that do not count
	MinRuns, MaxRuns int
	MinTime, MaxTime time.Duration
	Patience         time.Duration
}

// DefaultRoundLimits measures a batch size for about a third of a second.
func DefaultRoundLimits() RoundLimits {
	return RoundLimits{
		Warmups: 3, MinRuns: 20, MaxRuns: 500, MinTime: 300 * time.Millisecond, MaxTime: 3 * time.Second,
		Patience: 3 * time.Second,
	}
}

// WithDefaults has those of DefaultRoundLimits where a field is zero.
func (l RoundLimits) WithDefaults() RoundLimits {
	d := DefaultRoundLimits()
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

// fewRuns is the least for a quantile to mean anything at all.
const fewRuns = 3

func (l RoundLimits) enough(runs []time.Duration) bool { return l.reached(runs, fewRuns) }

func (l RoundLimits) reached(runs []time.Duration, few int) bool {
	var spent time.Duration
	for _, d := range runs {
		spent += d
	}
	return len(runs) >= l.MaxRuns ||
		len(runs) >= l.MinRuns && spent >= l.MinTime ||
		len(runs) >= few && spent >= l.MaxTime
}

// What a measured duration is: the LowQuantile of the runs, by nearest rank,
// rounded up to whole microseconds and at least ShortestDuration. Others can
// only make a run longer, so a low quantile is what the engine takes by itself;
// the least would hang on one lucky run, the lower quartile does not. The spread
// is what the HighQuantile of all runs takes beyond that: the noise that plans
// are to leave room for. At last larger batches are made to take no less than
// smaller ones: pipelines.IsotonicPoints.
const (
	LowQuantile      = 0.25
	HighQuantile     = pipelines.MeasuredQuantile
	ShortestDuration = time.Microsecond
)

// What others may use of the processor for a round to be calm: calmCores, or
// calmShare of all cores where that is more.
const (
	calmCores = 0.15
	calmShare = 0.05
)

// calm reports whether others left the machine alone, as far as known.
func (r Round) calm() bool {
	return r.Others <= max(calmCores, calmShare*float64(r.Cores))
}

// counted are the rounds that durations are taken from: those that were calm, or
// the calmest half where fewer were.
func (m *measurement) counted() []Round {
	all := slices.Clone(m.Rounds)
	slices.SortStableFunc(all, func(a, b Round) int { return cmp.Compare(a.Others, b.Others) })
	half := (len(all) + 1) / 2
	for half < len(all) && all[half].calm() {
		half++
	}
	return all[:half]
}

// undisturbed reports whether half of the rounds were calm.
func (m *measurement) undisturbed() bool {
	return !slices.ContainsFunc(m.counted(), func(r Round) bool { return !r.calm() })
}

// points states what was measured: durations of the rounds that count, spreads
// of all. Where the rounds that count were not calm, the points state how much others used in
// them.
func (m *measurement) points() []pipelines.Point {
	counted := m.counted()
	var others float64
	for _, r := range counted {
		others += r.Others / float64(len(counted))
	}
	if m.undisturbed() {
		others = 0
	}
	var points []pipelines.Point
	for _, size := range m.sizes {
		all := m.runs(size, m.Rounds)
		calm := m.runs(size, counted)
		if len(calm) < min(len(all), max(fewRuns, m.Limits.MinRuns/2)) {
			calm = all // it had enough runs before the rounds were calm
		}
		low, high := stated(quantile(calm, LowQuantile)), stated(quantile(all, HighQuantile))
		points = append(points, pipelines.Point{
			Hardware: m.Hardware, Batch: size, Concurrency: max(m.Concurrency, 1),
			Duration: low, Spread: max(high-low, 0), Others: math.Round(100*others) / 100,
			MemoryMiB: float64(m.Memory[size]) / (1 << 20),
		})
	}
	return points
}

// quantile by nearest rank.
func quantile(runs []time.Duration, q float64) time.Duration {
	sorted := slices.Clone(runs)
	slices.Sort(sorted)
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[max(rank, 0)]
}

// stated is a duration as profiles hold it.
func stated(d time.Duration) time.Duration {
	if rest := d % time.Microsecond; rest > 0 {
		d += time.Microsecond - rest
	}
	return max(d, ShortestDuration)
}
