// Package histogram counts durations in buckets that are a fixed share of their
// value wide. Simulator, gateway and load generator all use it.
//
// It is our own because HdrHistogram allots its whole range beforehand: from
// nanoseconds to an hour, 5 KiB for one significant figure, 36 KiB for two and
// 264 KiB for three. A gateway keeps four for every module and second of the last
// minute, and a search for a plan makes new ones for every module of every plan
// that it plays. Here buckets come with the values: latencies of up to 10 ms take
// 3 KiB in a coarse one and 34 KiB in a fine one.
//
//	var h histogram.Histogram
//	h.Add(80 * time.Millisecond)
//	h.Quantile(0.99)
package histogram

import (
	"math"
	"math/bits"
	"time"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// Fineness is how closely a histogram counts.
type Fineness uint8

// The finenesses.
const (
	Fine   Fineness = iota // quantiles are off by at most 1/512
	Coarse                 // by at most 1/32, in a sixteenth of the memory
)

// bits reports that a doubling of the value is divided into 2^bits buckets.
func (f Fineness) bits() int {
	if f == Coarse {
		return 4
	}
	return 8
}

// A Histogram counts durations; those below zero count as zero. The zero value
// is empty and fine. It must not be used from several goroutines at once. Its fields
// are for encoding/json alone.
type Histogram struct {
	Fineness Fineness
	Counts   []int64
	N        int64
	Longest  time.Duration
}

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) { h.AddMany(d, 1) }

// AddMany counts a duration so many times.
func (h *Histogram) AddMany(d time.Duration, n int) {
	d = max(0, d)
	h.bucket(h.index(uint64(d)), int64(n))
	h.N += int64(n)
	h.Longest = max(h.Longest, d)
}

// Merge adds what another histogram of the same fineness has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o.Counts {
		if n > 0 {
			h.bucket(i, n)
		}
	}
	h.N += o.N
	h.Longest = max(h.Longest, o.Longest)
}

// Reset empties the histogram, keeps its memory, and reports how finely it counts
// from now on.
func (h *Histogram) Reset(f Fineness) {
	clear(h.Counts)
	h.Fineness, h.N, h.Longest = f, 0, 0
}

// Count is how many durations were added.
func (h *Histogram) Count() int64 { return h.N }

// Max is the longest duration; 0 when there are none.
func (h *Histogram) Max() time.Duration { return h.Longest }

// Quantile is the duration that a share q of all do not exceed: the middle of its
// bucket, or the longest itself. It is 0 when there are none.
func (h *Histogram) Quantile(q float64) time.Duration { return Quantile(q, h) }

// Quantile is that of what several histograms of the same fineness have counted together.
func Quantile(q float64, all ...*Histogram) time.Duration {
	n, longest, buckets := int64(0), time.Duration(0), 0
	for _, h := range all {
		n += h.N
		longest, buckets = max(longest, h.Longest), max(buckets, len(h.Counts))
	}
	rank := max(1, int64(math.Ceil(q*float64(n))))
	if rank >= n {
		return longest
	}
	for i := range buckets {
		for _, h := range all {
			if i < len(h.Counts) {
				rank -= h.Counts[i]
			}
		}
		if rank <= 0 {
			return min(longest, all[0].middle(i))
		}
	}
	return longest
}

func (h *Histogram) bucket(i int, n int64) {
	if i >= len(h.Counts) {
		width := h.Fineness.bits()
		grown := make([]int64, (i>>width+1)<<width) // to the end of the doubling
		copy(grown, h.Counts)
		h.Counts = grown
	}
	h.Counts[i] += n
}

// index numbers the values below 2^(bits+1) one by one, and then 2^bits buckets
// to a doubling.
func (h *Histogram) index(v uint64) int {
	width := h.Fineness.bits()
	shift := max(0, bits.Len64(v)-width-1)
	return shift<<width + int(v>>shift)
}

// middle is the duration in the middle of a bucket.
func (h *Histogram) middle(i int) time.Duration {
	width := h.Fineness.bits()
	shift := max(0, i>>width-1)
	low := uint64(i-shift<<width) << shift
	return time.Duration(low + uint64(1)<<shift/2)
}

// Percentiles of durations. All are zero where nothing was measured. In JSON they
// are whole nanoseconds; MS has what people's tools read.
type Percentiles struct {
	P50 time.Duration `json:"p50_ns"`
	P90 time.Duration `json:"p90_ns,omitempty"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
}

// Percentiles of what was counted; Max is exact.
func (h *Histogram) Percentiles() Percentiles {
	return Percentiles{P50: h.Quantile(0.50), P90: h.Quantile(0.90), P99: h.Quantile(0.99), Max: h.Max()}
}

// MS are percentiles in JSON that others read: in milliseconds.
type MS struct {
	P50 quantity.MS `json:"p50"`
	P99 quantity.MS `json:"p99"`
	Max quantity.MS `json:"max"`
}

// MS writes the percentiles in milliseconds.
func (p Percentiles) MS() MS {
	return MS{P50: quantity.MS(p.P50), P99: quantity.MS(p.P99), Max: quantity.MS(p.Max)}
}
