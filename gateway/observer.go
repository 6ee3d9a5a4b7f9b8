package gateway

import (
	"context"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/wire"
)

// Observer receives the events of a Gateway. Any callback may be nil. They run on the request
// path and from many goroutines at once: they must return without blocking and must not call
// the Gateway.
type Observer struct {
	RequestBegin func(RequestInfo)  // accepted
	RequestEnd   func(RequestInfo)  // exactly once for every RequestBegin, and for every refusal
	BatchBegin   func(BatchInfo)    // handed to an executor
	BatchEnd     func(BatchInfo)    // answered, or lost with its executor
	Dropped      func(DropInfo)     // a module's policy gave an item up
	Exceeded     func(ExceedInfo)   // a module got more items of one than declared at most
	Attached     func(ExecutorInfo) // an executor sent Hello
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

// ExceedInfo describes an item that was split into more than its module's fan-out declares at
// most. The request goes on.
type ExceedInfo struct {
	Pipeline    string
	Module      string
	Items, Most int
}

// Tee makes one observer of several, which are called in turn.
func Tee(all ...Observer) Observer {
	return Observer{
		RequestBegin: each(all, func(o Observer) func(RequestInfo) { return o.RequestBegin }),
		RequestEnd:   each(all, func(o Observer) func(RequestInfo) { return o.RequestEnd }),
		BatchBegin:   each(all, func(o Observer) func(BatchInfo) { return o.BatchBegin }),
		BatchEnd:     each(all, func(o Observer) func(BatchInfo) { return o.BatchEnd }),
		Dropped:      each(all, func(o Observer) func(DropInfo) { return o.Dropped }),
		Exceeded:     each(all, func(o Observer) func(ExceedInfo) { return o.Exceeded }),
		Attached:     each(all, func(o Observer) func(ExecutorInfo) { return o.Attached }),
		Detached:     each(all, func(o Observer) func(ExecutorInfo) { return o.Detached }),
		Installed:    each(all, func(o Observer) func(InstallInfo) { return o.Installed }),
		CallEnd:      each(all, func(o Observer) func(CallInfo) { return o.CallEnd }),
		Traced:       each(all, func(o Observer) func(TraceInfo) { return o.Traced }),
	}
}

// each calls one callback of all observers that have it; nil when none has.
func each[T any](all []Observer, pick func(Observer) func(T)) func(T) {
	var calls []func(T)
	for _, o := range all {
		if f := pick(o); f != nil {
			calls = append(calls, f)
		}
	}
	switch len(calls) {
	case 0:
		return nil
	case 1:
		return calls[0]
	}
	return func(v T) {
		for _, f := range calls {
			f(v)
		}
	}
}

// TraceInfo is how one request went.
type TraceInfo struct {
	RequestInfo
	Context        context.Context // that came with the request
	Arrived, Ended time.Time
	Budget         time.Duration // from arrival to deadline; 0 when there is none

	steps func() []StepInfo // nil when it was refused
}

// StepInfo is one run of a module for a request. Of a step that was not completed only
// the first three are known.
type StepInfo struct {
	Module       string
	Completed    bool
	Begin        time.Time // the end of what it waited for, or the arrival
	End          time.Time // its outputs were back
	Started      time.Time // its batch was handed to the executor
	Critical     bool      // on the request's critical path: such steps follow each other without a gap
	Queue, Wait  time.Duration
	Compute      time.Duration
	Size         int // of the batch
	Attempts     int // how often it was queued again
	Executor     string
	Host, Device string
	Batch        any // the same for all that ran in one batch; nil where it is not known
}

// Steps are the runs of modules for the request, in the order in which they became
// ready. Call it while Traced runs.
func (t *TraceInfo) Steps() []StepInfo {
	if t.steps == nil {
		return nil
	}
	return t.steps()
}
