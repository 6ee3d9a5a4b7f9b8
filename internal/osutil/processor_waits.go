package osutil

import (
	"math"
	"runtime/metrics"
	"time"
)

// waits reads how long goroutines that were ready have waited to run.
type waits struct {
	sample []metrics.Sample
	before []uint64 // counts of the histogram when it was read last
}

func newWaits() *waits {
	w := &waits{sample: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	w.next()
	return w
}

// next is the mean since it was called last; 0 where nobody waited.
func (w *waits) next() time.Duration {
	metrics.Read(w.sample)
	if w.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return 0
	}
	h := w.sample[0].Value.Float64Histogram()
	if len(w.before) != len(h.Counts) {
		w.before = make([]uint64, len(h.Counts))
	}
	var n, sum float64
	for i, count := range h.Counts {
		more := float64(count - w.before[i])
		w.before[i] = count
		n, sum = n+more, sum+more*middle(h.Buckets[i], h.Buckets[i+1])
	}
	if n == 0 {
		return 0
	}
	return time.Duration(sum / n * float64(time.Second))
}

// middle of a bucket, whose ends may be infinite.
func middle(from, to float64) float64 {
	switch {
	case math.IsInf(from, -1):
		return 0
	case math.IsInf(to, 1):
		return from
	}
	return (from + to) / 2
}
