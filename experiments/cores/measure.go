package cores

import (
	"runtime"
	"time"
)

// measure runs f and says what it took.
func measure(f func()) Result {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, begin := spent(), time.Now()
	f()
	r := Result{Wall: time.Since(begin), CPU: spent() - cpu}
	runtime.ReadMemStats(&after)
	r.Allocations = after.Mallocs - before.Mallocs
	return r
}
