package rank

import (
	"sync/atomic"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const (
	ownersPage   = 1 << 10
	maxExecutors = 1 << 20
)

// owners tells which worker has an executor. It grows by pages that stay where
// they are, so that it can be read while it grows.
type owners struct {
	pages [maxExecutors / ownersPage]atomic.Pointer[[ownersPage]atomic.Int32]
}

// of is the worker that has the executor, or -1.
func (o *owners) of(id dispatch.ExecutorID) int32 {
	if id < 0 || id >= maxExecutors {
		return -1
	}
	page := o.pages[id/ownersPage].Load()
	if page == nil {
		return -1
	}
	return page[id%ownersPage].Load() - 1
}

func (o *owners) set(id dispatch.ExecutorID, worker int32) {
	at := &o.pages[id/ownersPage]
	page := at.Load()
	if page == nil {
		at.CompareAndSwap(nil, new([ownersPage]atomic.Int32))
		page = at.Load()
	}
	page[id%ownersPage].Store(worker + 1)
}
