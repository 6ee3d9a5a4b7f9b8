package simulate

import (
	"math"
	"math/bits"
	"time"
)

// Latency of what was answered. P50 and P99 are off by at most 0.2 %; Max is
// exact.
type Latency struct {
	P50, P99, Max time.Duration
}

// histogram counts durations in buckets whose width is at most 1/256 of their
// value, after HdrHistogram: a quantile is off by at most 1/512, the greatest
// value is exact.
type histogram struct {
	counts []int64
	n      int64
	max    time.Duration
}

// fine is how many buckets cover a doubling.
const fine = 256

func (h *histogram) add(d time.Duration) {
	d = max(0, d)
	i := bucket(uint64(d))
	if i >= len(h.counts) {
		grown := make([]int64, max(i+1, 2*len(h.counts)))
		copy(grown, h.counts)
		h.counts = grown
	}
	h.counts[i]++
	h.n++
	h.max = max(h.max, d)
}

func bucket(v uint64) int {
	shift := max(0, bits.Len64(v)-9)
	return shift*fine + int(v>>shift)
}

// quantile is the value that a share q of all values do not exceed; 0 when
// there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(1, int64(math.Ceil(q*float64(h.n))))
	if rank >= h.n {
		return h.max
	}
	for i, n := range h.counts {
		if rank -= n; rank <= 0 {
			shift := max(0, i/fine-1)
			low := uint64(i-shift*fine) << shift
			return min(h.max, time.Duration(low+uint64(1)<<shift/2))
		}
	}
	return h.max
}

func (h *histogram) latency() Latency {
	return Latency{P50: h.quantile(0.5), P99: h.quantile(0.99), Max: h.max}
}
