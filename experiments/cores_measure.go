package experiments

import (
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
)

// measureRun runs f and says what it took.
func measureRun(f func()) CoresResult {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	cpu, waits, begin := osutil.ProcessorTime(), waited(), time.Now()
	f()
	r := CoresResult{Wall: time.Since(begin), CPU: osutil.ProcessorTime() - cpu, Waited: waited() - waits}
	runtime.ReadMemStats(&after)
	r.Allocations = after.Mallocs - before.Mallocs
	return r
}

// waited is for how long goroutines have waited for locks.
func waited() time.Duration {
	all := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(all)
	return time.Duration(all[0].Value.Float64() * float64(time.Second))
}
