package osutil

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"time"
)

// interval is how often the time used is looked at. Work that comes at once has one
// processor for two of them at the most.
const interval = 50 * time.Millisecond

// most is what the runtime took when the program began: what the machine has, or what the
// limits of its container or GOMAXPROCS say.
var most = runtime.GOMAXPROCS(0)

// MostProcessors is how many processors there are for this process, whatever it takes just now.
func MostProcessors() int { return most }

// FollowProcessors lets the runtime take as many processors as are needed, one to begin with, until
// ctx ends; then it takes all again. It does nothing where GOMAXPROCS is set in the
// environment or the time that the process has used cannot be told. One at a time in a
// process.
func FollowProcessors(ctx context.Context) {
	if ProcessorTime() == 0 || os.Getenv("GOMAXPROCS") != "" || most == 1 {
		return
	}
	l := newLimit(most)
	runtime.GOMAXPROCS(l.Now())
	go func() {
		defer runtime.GOMAXPROCS(most)
		follow(ctx, &l)
	}()
}

func follow(ctx context.Context, l *limit) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	at, before := time.Now(), ProcessorTime()
	waits := newWaits()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, total := time.Now(), ProcessorTime()
		passed := now.Sub(at)
		if passed <= 0 {
			continue
		}
		was := l.Now()
		if n := l.Next(float64(total-before)/float64(passed), waits.next(), passed); n != was {
			runtime.GOMAXPROCS(n)
		}
		at, before = now, total
	}
}

// full is the share of the processors that a process takes, in two intervals running, at
// which it takes twice as many.
const full = 0.95

// What is left of n processors so that what is ready does not wait long for its turn:
// spare·√n of them, the rule of square-root staffing. A gateway that used 0.7 of one answered
// 1 in 100 small requests after 10 to 49 ms with one, and after 11 to 16 ms with two, which
// cost 3 % more processor time. A process that would leave between of those besides can do
// with one fewer, and would not be busy with that at once.
const (
	spare   = 0.4
	between = 0.1
)

// busy is how much of n processors a process may use on average before it takes one more.
func busy(n int) float64 { return float64(n) - spare*math.Sqrt(float64(n)) }

// easy is below what of n processors a process that has more can do with them.
func easy(n int) float64 { return busy(n) - between*float64(n) }

// Waits of goroutines that are ready, on average, at which the number changes. On a machine
// that others keep busy a process is not given what it would use, and with more threads it
// is given more. A batch whose results are there wakes as many goroutines as it has requests:
// beside a network whose batches fill, waits are 1 to 3 ms with one processor and with two.
const (
	longWait  = 10 * time.Millisecond
	shortWait = 5 * time.Millisecond
)

const (
	smoothing = 300 * time.Millisecond // of the average
	patience  = 2 * time.Second
)

// limit decides how many processors a process takes. It is a plain value, for one goroutine.
type limit struct {
	now, most int
	last      float64       // processors used in the last interval
	average   float64       // of them
	waited    float64       // average of the waits, in nanoseconds
	eased     time.Duration // for how long both averages have been low
}

// newLimit begins with one processor. most is how many there are; less than 1 counts as 1.
func newLimit(most int) limit { return limit{now: 1, most: max(1, most)} }

// Now is how many processors to take.
func (l *limit) Now() int { return l.now }

// Next takes in how many processors were used in the last interval and for how long
// goroutines waited that were ready, both on average over it, and returns how many to take. A
// process that uses all it has gets twice as many, one that is busy on average or whose
// goroutines wait long one more, one that has long been at ease one fewer.
func (l *limit) Next(used float64, waited, interval time.Duration) int {
	weight := min(1, float64(interval)/float64(smoothing))
	l.average += (used - l.average) * weight
	l.waited += (float64(waited) - l.waited) * weight
	if l.average < easy(l.now-1) && l.waited < float64(shortWait) {
		l.eased += interval
	} else {
		l.eased = 0
	}
	last := l.last
	l.last = used
	switch {
	case min(used, last) > full*float64(l.now):
		l.take(2 * l.now)
	case l.average > busy(l.now), l.waited > float64(longWait):
		l.take(l.now + 1)
	case l.eased >= patience:
		l.take(l.now - 1)
	}
	return l.now
}

func (l *limit) take(n int) {
	l.now, l.eased = min(max(n, 1), l.most), 0
}

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
