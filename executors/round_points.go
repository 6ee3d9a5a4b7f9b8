package executors

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
)

// What a measured duration is: the LowQuantile of the runs, by nearest rank,
// rounded up to whole microseconds and at least ShortestDuration. Others can
// only make a run longer, so a low quantile is what the engine takes by itself;
// the least would hang on one lucky run, the lower quartile does not. The spread
// is what the HighQuantile of all runs takes beyond that: the noise that plans
// are to leave room for. At last larger batches are made to take no less than
// smaller ones: isotonic.Points.
const (
	LowQuantile      = 0.25
	HighQuantile     = 0.95
	ShortestDuration = time.Microsecond
)

// What others may use of the processor for a round to be calm: calmCores, or
// calmShare of all cores where that is more.
const (
	calmCores = 0.15
	calmShare = 0.05
)

// calm says whether others left the machine alone, as far as known.
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
