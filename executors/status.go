package executors

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// Phase of an executor's life.
type Phase string

// The phases, in the order in which they are usually passed.
const (
	Loading   Phase = "loading"
	Attaching Phase = "attaching"
	Serving   Phase = "serving"
	Reloading Phase = "reloading"
	Draining  Phase = "draining"
	Stopped   Phase = "stopped"
)

// Status is how an executor is doing: small enough for a heartbeat.
type Status struct {
	Executor   string
	Pipeline   string
	Module     string
	Device     string
	Engine     string
	Version    string // of the engine
	Phase      Phase
	Since      time.Time // start of the phase
	Memory     int64     // bytes on the device; 0 when unknown
	Batches    int64     // finished, failed ones included
	Items      int64     // in these batches
	Failed     int64     // batches
	Reloads    int64     // of the engine
	Reconnects int64     // to the gateway
	Busy       time.Duration
	LastError  string
}

// Describe is the status in one line.
func (s Status) Describe() string {
	line := fmt.Sprintf("%s %s on %s with %s: %d batches, %d items, %d failed, busy %v",
		s.Executor, s.Phase, s.Device, s.Engine, s.Batches, s.Items, s.Failed, s.Busy.Round(time.Millisecond))
	if s.LastError != "" {
		line += "; last error: " + s.LastError
	}
	return line
}

// counters are the parts of a Status that change; those of the hot path are
// atomic.
type counters struct {
	batches, items, failed, busy atomic.Int64
	reloads, reconnects, memory  atomic.Int64

	mu        sync.Mutex
	phase     Phase
	since     time.Time
	lastError string
}

func (c *counters) enter(p Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != p {
		c.phase, c.since = p, time.Now()
	}
}

func (c *counters) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastError = err.Error()
}

func (c *counters) count(b BatchInfo) {
	c.batches.Add(1)
	c.items.Add(int64(b.Size))
	c.busy.Add(int64(b.Compute))
	if b.Err != nil {
		c.failed.Add(1)
		c.fail(b.Err)
	}
}

func (e *executor) status() Status {
	c := &e.counters
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{
		Executor:   e.task.Slot.Executor,
		Pipeline:   e.task.Slot.Pipeline,
		Module:     e.task.Slot.Module,
		Device:     e.task.Slot.Device,
		Engine:     e.residents[0].engine.Name(),
		Version:    e.residents[0].engine.Version(),
		Phase:      c.phase,
		Since:      c.since,
		Memory:     c.memory.Load(),
		Batches:    c.batches.Load(),
		Items:      c.items.Load(),
		Failed:     c.failed.Load(),
		Reloads:    c.reloads.Load(),
		Reconnects: c.reconnects.Load(),
		Busy:       time.Duration(c.busy.Load()),
		LastError:  c.lastError,
	}
}

// Observer receives the events of an executor. Every field may be nil. The calls come from the
// goroutines that do the work, several at once where the concurrency is above 1, so they must
// be quick and must not block.
type Observer struct {
	Loaded     func(Status)                         // also after every reload
	Attached   func(Status)                         // the gateway has its Hello
	Detached   func(Status, error)                  // the stream ended without a drain; it will be dialled again
	BatchBegin func(BatchInfo)                      // the device is ours
	BatchEnd   func(BatchInfo)                      // before the result is sent
	Reloading  func(s Status, attempt int, e error) // the engine is gone; e is why, or why the last attempt failed
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
