package pipelines

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Bounds of what a profile may say.
const (
	MaxBatch       = 65536
	MaxPoints      = 10_000
	MaxConcurrency = 1024
	MaxDuration    = 24 * time.Hour
)

// ComparePoints orders points by hardware, concurrency and batch.
func ComparePoints(a, b Point) int {
	if c := strings.Compare(a.Hardware, b.Hardware); c != 0 {
		return c
	}
	if a.Concurrency != b.Concurrency {
		return a.Concurrency - b.Concurrency
	}
	return a.Batch - b.Batch
}

// Describe reports how long a batch takes.
func (p Point) Describe() string {
	if p.Concurrency > 1 {
		return fmt.Sprintf("batch %d, %d at a time, takes %s", p.Batch, p.Concurrency, quantity.Duration(p.Duration))
	}
	return fmt.Sprintf("batch %d takes %s", p.Batch, quantity.Duration(p.Duration))
}

// CSV writes the points as a profile file. What is unknown stays empty.
func (p Profile) CSV() []byte {
	var b bytes.Buffer
	b.WriteString("hardware,batch,concurrency,duration_ms,memory_mib,spread_ms,others_cores\n")
	sorted := slices.Clone(p.Points)
	slices.SortFunc(sorted, ComparePoints)
	for _, at := range sorted {
		fmt.Fprintf(&b, "%s,%d,%d,%s,%s,%s,%s\n", at.Hardware, at.Batch, max(at.Concurrency, 1),
			asMillis(at.Duration), number(at.MemoryMiB), known(at.Spread > 0, asMillis(at.Spread)), known(at.Others > 0, number(at.Others)))
	}
	return b.Bytes()
}

func asMillis(d time.Duration) string { return number(quantity.Millis(d)) }

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func known(is bool, text string) string {
	if !is {
		return ""
	}
	return text
}

// Disturbed reports which of the modules were profiled while others used so much
// of the processor that durations may be too long, and what to do about it. It
// is empty when there is none, as far as known.
func Disturbed(modules ...Module) string {
	var names []string
	var others float64
	for _, m := range modules {
		most := 0.0
		for _, at := range m.Profile.Points {
			most = max(most, at.Others)
		}
		if most > 0 {
			names, others = append(names, m.Name), max(others, most)
		}
	}
	if len(names) == 0 {
		return ""
	}
	were, their := "was", "its"
	if len(names) > 1 {
		were, their = "were", "their"
	}
	return fmt.Sprintf("others used up to %.1f cores while %s %s profiled, so %s durations may be too long; harpagon profile --again measures again when the machine is calm",
		others, strings.Join(names, ", "), were, their)
}

// IsotonicPoints is the isotonic regression of measured points in the batch size: a
// larger batch never takes less time, because a smaller one can always be run
// padded to it. It sorts the points by hardware, concurrency and batch.
//
// Neighbours that fall are pooled until none do (pool adjacent violators), and
// each pool takes the lower median of its durations: noise only ever makes a
// run longer, so of two durations that contradict each other the shorter one is
// believed. Duration + Spread is treated in the same way, which leaves every
// spread at zero or above.
//
// Source: Barlow, Bartholomew, Bremner, Brunk, Statistical Inference under Order
// Restrictions (1972); with medians Robertson and Wright, Annals of Statistics 1
// (1973).
func IsotonicPoints(points []Point) []Point {
	all := slices.Clone(points)
	slices.SortStableFunc(all, ComparePoints)
	for begin := 0; begin < len(all); {
		end := begin + 1
		for end < len(all) && all[end].Hardware == all[begin].Hardware && max(all[end].Concurrency, 1) == max(all[begin].Concurrency, 1) {
			end++
		}
		pooled(all[begin:end])
		begin = end
	}
	return all
}

// pooled treats points of one hardware and concurrency, smallest batch first.
func pooled(points []Point) {
	low := make([]time.Duration, len(points))
	high := make([]time.Duration, len(points))
	for i, p := range points {
		low[i], high[i] = p.Duration, p.Duration+p.Spread
	}
	low, high = rising(low), rising(high)
	for i := range points {
		points[i].Duration, points[i].Spread = low[i], high[i]-low[i]
	}
}

// rising pools adjacent violators: the result never falls.
func rising(x []time.Duration) []time.Duration {
	var pools [][]time.Duration // each sorted
	for _, d := range x {
		pool := []time.Duration{d}
		for n := len(pools); n > 0 && lowerMedian(pools[n-1]) > lowerMedian(pool); n = len(pools) {
			pool = slices.Concat(pools[n-1], pool)
			slices.SortFunc(pool, cmp.Compare)
			pools = pools[:n-1]
		}
		pools = append(pools, pool)
	}
	out := make([]time.Duration, 0, len(x))
	for _, pool := range pools {
		for range pool {
			out = append(out, lowerMedian(pool))
		}
	}
	return out
}

// lowerMedian is the middle of sorted durations, the lower of two.
func lowerMedian(sorted []time.Duration) time.Duration { return sorted[(len(sorted)-1)/2] }

// SlowestRuns are the slowest runs of a profile on one kind of hardware, by the size of
// the batch, smallest first: none is shorter than that of a smaller batch.
type SlowestRuns []Run

// Run is how long a batch of at most that size has taken.
type Run struct {
	Batch int
	Took  time.Duration
}

// stuckRuns is how many times its slowest run a batch takes when it is not slow but stuck.
const stuckRuns = 10

// SlowestRuns are those of batches with at most so many beside each other.
func (p Profile) SlowestRuns(hardware string, concurrency int) (all SlowestRuns) {
	for _, at := range p.Points {
		if at.Hardware == hardware && at.Concurrency <= max(concurrency, 1) {
			all = append(all, Run{at.Batch, at.Duration + at.Spread})
		}
	}
	slices.SortFunc(all, func(a, b Run) int { return cmp.Or(a.Batch-b.Batch, cmp.Compare(b.Took, a.Took)) })
	all = slices.CompactFunc(all, func(a, b Run) bool { return a.Batch == b.Batch })
	for i := 1; i < len(all); i++ {
		all[i].Took = max(all[i].Took, all[i-1].Took)
	}
	return all
}

// Stuck is after what time a batch of that size takes far longer than its profile: ten
// times the slowest run; 0 where nothing is known of the hardware.
func (s SlowestRuns) Stuck(batch int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(s, batch, func(r Run, batch int) int { return r.Batch - batch })
	return stuckRuns * s[min(i, len(s)-1)].Took
}
