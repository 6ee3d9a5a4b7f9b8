package simulate

import (
	"time"

	"github.com/harpagon/harpagon/pipelines/histogram"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// tally counts what becomes of the requests of a pipeline.
type tally struct {
	begin   Time
	perTime float64 // slices of time for each nanosecond

	failures
	requests, completed, late int64
	spent, useful             Time // of devices by items; by those of requests that were in time
	latency                   histogram.Histogram
	good, total               [slicesOfTime]int64
}

func newTally(begin, end Time) tally {
	return tally{begin: begin, perTime: slicesOfTime / float64(max(1, end-begin))}
}

func (t *tally) slice(arrival Time) int {
	return min(slicesOfTime-1, int(float64(arrival-t.begin)*t.perTime))
}

func (t *tally) arrive(arrival Time) {
	t.requests++
	t.total[t.slice(arrival)]++
}

// answer counts a request that is answered, and says whether it is in time.
func (t *tally) answer(arrival, took, slo Time) bool {
	t.latency.Add(took)
	if took > slo {
		t.late++
		return false
	}
	t.completed++
	t.good[t.slice(arrival)]++
	return true
}

// moduleTally counts what becomes of the items of a module.
type moduleTally struct {
	failures
	items, completed, late, withdrawn int64
	batches, batched                  int64
	latency                           histogram.Histogram
	behind                            time.Duration // the most that an item left after its budget
}

func (t *moduleTally) complete(took, behind Time, inTime bool) {
	t.latency.Add(took)
	t.behind = max(t.behind, behind)
	if inTime {
		t.completed++
	} else {
		t.late++
	}
}

// failures are requests or items that a policy has dropped.
type failures struct{ dropped, refused int64 }

func (f *failures) fail(reason dispatch.Reason) {
	if reason == dispatch.Full {
		f.refused++
	} else {
		f.dropped++
	}
}
