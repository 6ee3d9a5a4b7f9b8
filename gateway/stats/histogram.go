package stats

import (
	"math/bits"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// A histogram counts durations in buckets that are a fixed share of their
// value wide: 16 to an octave of microseconds, so a percentile is at most 1/16
// above what was measured. It is small, because there is one for every second
// and every figure.
type histogram struct {
	counts [histogramSize]uint32
	n      uint64
	max    time.Duration
}

const (
	histogramBits = 4 // 16 buckets to an octave
	histogramSize = 28 << histogramBits
)

func (h *histogram) add(d time.Duration) {
	h.n++
	h.max = max(h.max, d)
	h.counts[bucketOf(d)]++
}

// bucketOf numbers the microseconds below 16 one by one and then 16 buckets to
// an octave; the last bucket takes all beyond half an hour.
func bucketOf(d time.Duration) int {
	us := uint64(max(d, 0) / time.Microsecond)
	octave := bits.Len64(us >> histogramBits)
	if octave == 0 {
		return int(us)
	}
	at := octave<<histogramBits + int(us>>(octave-1)) - 1<<histogramBits
	return min(at, histogramSize-1)
}

// bucketTop is the longest duration of a bucket.
func bucketTop(i int) time.Duration {
	octave := i >> histogramBits
	if octave == 0 {
		return time.Duration(i+1) * time.Microsecond
	}
	us := (i&(1<<histogramBits-1) + 1<<histogramBits + 1) << (octave - 1)
	return time.Duration(us) * time.Microsecond
}

func (h *histogram) merge(o *histogram) {
	if o.n == 0 {
		return
	}
	h.n += o.n
	h.max = max(h.max, o.max)
	for i, c := range o.counts {
		h.counts[i] += c
	}
}

func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	for i, c := range h.counts {
		if uint64(c) > rank {
			return min(bucketTop(i), h.max)
		}
		rank -= uint64(c)
	}
	return h.max
}

func (h *histogram) percentiles() autoscale.Percentiles {
	return autoscale.Percentiles{P50: h.quantile(0.50), P99: h.quantile(0.99), Max: h.max}
}
