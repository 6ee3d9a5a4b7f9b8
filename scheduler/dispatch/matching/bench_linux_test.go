package matching

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// threadTime is the processor time of this thread, which other work on the
// machine does not add to.
func threadTime(b *testing.B) time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		b.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// BenchmarkMatchingDecision reports the 99th percentile of the processor time
// of single decisions: an instance frees, and a query starts there.
func BenchmarkMatchingDecision(b *testing.B) {
	for _, shape := range [][2]int{{50, 10}, {1000, 100}} {
		for _, width := range []int{1, 2, 1000} {
			b.Run(fmt.Sprintf("%dx%d/width=%d", shape[0], shape[1], width), func(b *testing.B) {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				p, step := loaded(shape[0], shape[1])
				p.Width = width
				var out []dispatch.Action
				var took []time.Duration
				b.ReportAllocs()
				for b.Loop() {
					start := threadTime(b)
					out = step(out[:0])
					took = append(took, threadTime(b)-start)
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-cpu-µs")
			})
		}
	}
}
