package rank

import (
	"math"
	"sync/atomic"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// What stands on a notice instead of a time.
const (
	none    int64 = math.MaxInt64 // no executor is needed
	claimed int64 = math.MinInt64 // one is on its way
)

// slack is how much less time another worker's batch must have left than one's
// own to get an executor that became free: below it an exchange costs more than
// the order is worth.
const slack = dispatch.Time(1e6)

// board is what the workers tell each other, a notice each. A worker writes how
// urgently it needs an executor; whoever means to give it one claims the notice
// first, so that no two do.
type board []notice

type notice struct {
	demand atomic.Int64 // the last instant for its most urgent batch, none or claimed
	idle   atomic.Bool  // it has executors that it does not need
	_      [48]byte     // a cache line each
}

// urgent is the worker other than me with the least time left, and its last
// instant; -1 where no other needs an executor.
func (b board) urgent(me int32) (worker int32, last int64) {
	worker, last = -1, none
	for i := range b {
		if at := b[i].demand.Load(); int32(i) != me && at != claimed && at < last {
			worker, last = int32(i), at
		}
	}
	return worker, last
}

// claim takes the need of a worker upon oneself.
func (b board) claim(worker int32, last int64) bool {
	return b[worker].demand.CompareAndSwap(last, claimed)
}

// ask writes what the worker needs, and says whether that is new: then those
// that have idle executors have to be woken.
func (b board) ask(me int32, last int64) bool {
	was := b[me].demand.Load()
	return was != last && was != claimed && b[me].demand.CompareAndSwap(was, last) && was == none
}

// served ends a claim.
func (b board) served(me int32) { b[me].demand.Store(none) }
