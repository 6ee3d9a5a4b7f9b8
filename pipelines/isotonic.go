package pipelines

import (
	"cmp"
	"slices"
	"time"
)

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
