package gateway

import (
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/wire"
)

// Observer is told what happens in a Gateway. Any callback may be nil. They
// run on the request path and from many goroutines at once: they must return
// without blocking and must not call the Gateway.
type Observer struct {
	RequestBegin func(RequestInfo)  // accepted
	RequestEnd   func(RequestInfo)  // exactly once for every RequestBegin, and for every refusal
	BatchBegin   func(BatchInfo)    // handed to an executor
	BatchEnd     func(BatchInfo)    // answered, or lost with its executor
	Dropped      func(DropInfo)     // a module's policy gave an item up
	Attached     func(ExecutorInfo) // an executor said Hello
	Detached     func(ExecutorInfo)
	Installed    func(InstallInfo)
	CallEnd      func(CallInfo)  // a function was called, or could not be
	Traced       func(TraceInfo) // with every RequestEnd: how the request went
}

// Outcome is how a request ended.
type Outcome = dispatcher.Outcome

// The outcomes. Completed and Late have answers.
const (
	Completed = dispatcher.Completed      // answered within its deadline
	Late      = dispatcher.LateOutcome    // answered after its deadline
	Dropped   = dispatcher.Dropped        // given up because the deadline could no longer be met
	Refused   = dispatcher.RefusedOutcome // refused on arrival
	Failed    = dispatcher.Failed         // an error of engine, executor or gateway
	Cancelled = dispatcher.Cancelled      // the caller went away
	Invalid   = dispatcher.Invalid        // wrong in itself, on arrival or for an engine: the caller's mistake
)

// RequestInfo describes one request. The slices are read-only.
type RequestInfo struct {
	Pipeline   string
	ID         string
	Caller     string // the name of its token; empty where callers have none of their own
	Generation int
	Outcome    Outcome       // at the end
	Unaccepted bool          // at the end: it had no RequestBegin before
	Elapsed    time.Duration // at the end
	Stages     []wire.Stage  // at the end, where there is an answer
	Err        *wire.Error   // at the end, where there is none
}

// BatchInfo describes one batch.
type BatchInfo struct {
	Pipeline string
	Module   string
	Executor string
	Size     int
	Waited   time.Duration // at the end: in the executor, for the device
	Compute  time.Duration // at the end: in the engine
	Elapsed  time.Duration // at the end: since it was handed over
	Err      *wire.Error
}

// CallInfo describes one call of a function.
type CallInfo struct {
	Function string
	Group    string // size of the function
	Requests int
	Kind     string // why there is no good answer; empty where there is one
	Cold     bool   // after a cold start
	Again    int    // how often it was sent once more
	Ran      bool   // the provider bills it
	Billed   time.Duration
	Cost     float64
}

// ExecutorInfo describes one attached executor.
type ExecutorInfo struct {
	Pipeline string
	Module   string
	Executor string
	Host     string
	Device   string
	Err      error // why it has gone; nil after a drain
}

// InstallInfo describes a switch of traffic.
type InstallInfo struct {
	Pipeline   string
	Generation int
	Previous   int // generation; 0 where there was none
	Executors  int
	Moved      int               // waiting items that changed policy
	Policies   map[string]string // the dispatch policy of every module; read-only
}

// DropInfo describes an item that a module's policy gave up. Its request ends
// with an error, unless it has ended already.
type DropInfo struct {
	Pipeline string
	Module   string
	Reason   string // one of those of package autoscale
}
