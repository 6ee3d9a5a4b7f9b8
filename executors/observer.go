package executors

import (
	"time"

	"github.com/harpagon/harpagon/wire"
)

// Observer is told what happens to an executor. Every field may be nil. The
// calls come from the goroutines that do the work, several at once where the
// concurrency is above 1, so they must be quick and must not block.
type Observer struct {
	Loaded     func(Status)                         // also after every reload
	Attached   func(Status)                         // the gateway has its Hello
	Detached   func(Status, error)                  // the stream ended without a drain; it will be dialled again
	BatchBegin func(BatchInfo)                      // the device is ours
	BatchEnd   func(BatchInfo)                      // before the result is sent
	Reloading  func(s Status, attempt int, e error) // the engine is gone; e says why, or why the last attempt failed
	Draining   func(s Status, reason string)
	Drained    func(Status)
}

// BatchInfo is one batch as its executor sees it.
type BatchInfo struct {
	Executor string
	ID       uint64
	Size     int
	Due      time.Time
	Waited   time.Duration // for the device
	Compute  time.Duration // at the end
	Failed   int           // requests that have failed, at the end
	Err      *wire.Error   // of the first of them
}

func (o *Observer) loaded(s func() Status) {
	if o.Loaded != nil {
		o.Loaded(s())
	}
}

func (o *Observer) attached(s func() Status) {
	if o.Attached != nil {
		o.Attached(s())
	}
}

func (o *Observer) detached(s func() Status, err error) {
	if o.Detached != nil {
		o.Detached(s(), err)
	}
}

func (o *Observer) reloading(s func() Status, attempt int, err error) {
	if o.Reloading != nil {
		o.Reloading(s(), attempt, err)
	}
}

func (o *Observer) draining(s func() Status, reason string) {
	if o.Draining != nil {
		o.Draining(s(), reason)
	}
}

func (o *Observer) drained(s func() Status) {
	if o.Drained != nil {
		o.Drained(s())
	}
}
