package executors

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/executors/busy"
	"github.com/harpagon/harpagon/executors/turns"
	"github.com/harpagon/harpagon/pipelines"
)

const (
	passes = 10 // over all batch sizes, each with its share of the runs

	// roundTime is the least that a round lasts: processor times are counted in
	// ticks of 10 ms, and say little of less.
	roundTime = 250 * time.Millisecond
)

// What others may use of the processor for a round to be calm: calmCores, or
// calmShare of all cores where that is more.
const (
	calmCores = 0.15
	calmShare = 0.05
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

// calm says whether others left the machine alone, as far as known.
func (r Round) calm() bool {
	return r.Others <= max(calmCores, calmShare*float64(r.Cores))
}

// measurement is one under way.
type measurement struct {
	host *Host
	MeasureTask
	Measured
	sizes  []int // to measure, rising
	limits Limits
	engine Engine
	queue  *turns.Device
	read   func() (busy.Reading, error)
	tell   func(Measured)
}

// run loads the module for one batch size after the other, to know its memory,
// and then measures all of them on the largest.
func (m *measurement) run(ctx context.Context) error {
	if m.Memory == nil {
		m.Memory = map[int]int64{}
	}
	largest := m.sizes[len(m.sizes)-1]
	for _, size := range m.sizes {
		if _, known := m.Memory[size]; known && size != largest {
			continue
		}
		if err := m.measureSize(ctx, size, size == largest); err != nil {
			return err
		}
	}
	return nil
}

// measureSize loads the module for a batch size and notes its memory. With rounds it
// goes on to measure all sizes on that instance.
func (m *measurement) measureSize(ctx context.Context, size int, rounds bool) error {
	p, err := m.load(ctx, size)
	if err != nil {
		return at(size, err)
	}
	defer p.close()
	warm := []int{size}
	if rounds {
		warm = m.sizes
	}
	for _, n := range warm {
		for range m.limits.Warmups {
			if _, err := m.timed(ctx, p, n); err != nil {
				return at(n, err)
			}
		}
	}
	m.Memory[size] = p.Memory()
	m.report()
	if rounds {
		return m.rounds(ctx, p)
	}
	return nil
}

func at(size int, err error) error { return fmt.Errorf("at batch %d: %w", size, err) }

func (m *measurement) report() {
	if m.tell != nil {
		so := m.Measured
		so.Memory = maps.Clone(so.Memory) // it grows; rounds stay as they are
		m.tell(so)
	}
}

// rounds goes on until all sizes have enough runs, and then until half of the
// rounds were calm or patience ends.
func (m *measurement) rounds(ctx context.Context, p prepared) error {
	begin := time.Now()
	for {
		enough := m.enough()
		if enough && (m.undisturbed() || time.Since(begin) >= m.limits.Patience) {
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
func (m *measurement) round(ctx context.Context, p prepared, all bool) (Round, error) {
	r := Round{Runs: map[int][]time.Duration{}}
	before, errBefore := m.read()
	begin := time.Now()
	for pass := len(m.Rounds); ; pass++ {
		ran := false
		for i := range m.sizes {
			size := m.sizes[i]
			if pass%2 == 1 {
				size = m.sizes[len(m.sizes)-1-i]
			}
			if !all && m.limits.enough(append(m.runs(size, m.Rounds), r.Runs[size]...)) {
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
	after, errAfter := m.read()
	if use := after.Since(before); errBefore == nil && errAfter == nil && use.Known() {
		r.Others, r.Cores = use.Others, use.Cores
	}
	return r, nil
}

// turn is the share of a batch size in a pass: at least one run.
func (m *measurement) turn(ctx context.Context, p prepared, size int) ([]time.Duration, error) {
	var runs []time.Duration
	share := Limits{
		MinRuns: (m.limits.MinRuns + passes - 1) / passes, MaxRuns: (m.limits.MaxRuns + passes - 1) / passes,
		MinTime: m.limits.MinTime / passes, MaxTime: m.limits.MaxTime / passes,
	}
	for !share.reached(runs, 1) {
		took, err := m.timed(ctx, p, size)
		if err != nil {
			return nil, err
		}
		runs = append(runs, took)
	}
	return runs, nil
}

func (m *measurement) enough() bool {
	return !slices.ContainsFunc(m.sizes, func(size int) bool { return !m.limits.enough(m.runs(size, m.Rounds)) })
}

func (l Limits) enough(runs []time.Duration) bool { return l.reached(runs, fewRuns) }

func (l Limits) reached(runs []time.Duration, few int) bool {
	var spent time.Duration
	for _, d := range runs {
		spent += d
	}
	return len(runs) >= l.MaxRuns ||
		len(runs) >= l.MinRuns && spent >= l.MinTime ||
		len(runs) >= few && spent >= l.MaxTime
}

func (m *measurement) runs(size int, rounds []Round) []time.Duration {
	var all []time.Duration
	for _, r := range rounds {
		all = append(all, r.Runs[size]...)
	}
	return all
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

// undisturbed says whether half of the rounds were calm.
func (m *measurement) undisturbed() bool {
	return !slices.ContainsFunc(m.counted(), func(r Round) bool { return !r.calm() })
}

// points states what was measured: durations of the rounds that count, spreads
// of all. Where the rounds that count were not calm, the points say how much
// others used in them.
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
		if len(calm) < min(len(all), max(fewRuns, m.limits.MinRuns/2)) {
			calm = all // it had enough runs before the rounds were calm
		}
		low, high := stated(quantile(calm, LowQuantile)), stated(quantile(all, HighQuantile))
		points = append(points, pipelines.Point{
			Hardware: m.Hardware, Batch: size, Concurrency: max(m.Measured.Concurrency, 1),
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
