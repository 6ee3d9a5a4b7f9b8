package dispatch

import (
	"fmt"
	"math"
	"time"
)

// Never is the instant that does not come.
const Never = time.Duration(math.MaxInt64)

// Time is an instant on the driver's clock: the duration since an epoch of the
// driver's choice.
type Time = time.Duration

// RequestID names a request to one module; the driver never reuses one while
// it is in flight.
type RequestID uint64

// ExecutorID names an executor; small and dense, chosen by the driver.
type ExecutorID int32

// Request is a request as a policy sees it: no payload.
type Request struct {
	ID       RequestID
	Class    int32 // which module or model; 0 where a policy serves only one (see Options.Models)
	Size     int32 // items of a query, where its duration follows from them (policy matching); 0 elsewhere
	Arrival  Time  // virtual arrival: windows and due dates count from it
	Deadline Time  // latest instant at which its batch may finish
	End      Time  // when what it is a part of is to be answered, after modules below; 0 for Deadline
}

// Kind of an Event.
type Kind uint8

// The events that a driver reports.
const (
	Arrive       Kind = iota + 1 // Request is ready for the module
	Cancel                       // Request.ID is no longer wanted; in a cluster its Class and Deadline, if set, find it faster
	ExecutorUp                   // Executor of Group is ready and idle
	ExecutorFree                 // Executor has finished its batch
	ExecutorGone                 // Executor takes no more batches
	Timer                        // the instant set by SetTimer has come
	Granted                      // answer to Ask: the device of Executor is reserved for the batch
	Refused                      // answer to Ask: it is not; ask again at At, or after DeviceIdle where At is Never
	DeviceIdle                   // nothing runs any more on the device that Executor was refused
	DeviceAlone                  // Executor has its device for itself (Alone), or no longer has
)

// Event is one input of a policy.
type Event struct {
	Kind     Kind
	Request  Request
	Executor ExecutorID
	Group    int32 // with ExecutorUp
	More     bool  // with Arrive: another of the same request follows in this instant, before which nothing need be decided
	Alone    bool  // with ExecutorUp and DeviceAlone: no other executor is on its device
	Took     Time  // with ExecutorFree: the engine's time for the batch; 0 if unknown
	At       Time  // with Refused; with ExecutorFree, when what it runs should be back, if it takes the next batch before that
}

// Act of an Action.
type Act uint8

// The actions that a policy returns.
const (
	Start    Act = iota + 1 // run Batch on Executor now
	SetTimer                // report Timer at At; replaces an earlier one
	Drop                    // Request will not be served, for Reason
	Ask                     // may a batch that is not due start on Executor now and end by At? Always the last action of a Step; the driver answers with Granted or Refused
	Release                 // nothing starts on Executor, though its device was Granted
	Need                    // the plan next needs the device of Executor at At, then every Reservation.Period; at Never: it does not
)

// Reason for a Drop.
type Reason uint8

// The reasons, each a different outcome for the caller.
const (
	Late Reason = iota + 1 // its deadline can no longer be met
	Full                   // the queue is at its bound
)

// Action is one output of a policy. Batch is valid until the next Step.
type Action struct {
	Act      Act
	Reason   Reason // with Drop
	Executor ExecutorID
	Group    int32
	Class    int32 // with Start: the Class that all requests of Batch have
	Batch    []RequestID
	At       Time // with SetTimer, Ask and Need; with Start only where a cluster has a Delay: when the batch begins
	Due      Time // with Ask: when the first request of the batch is to be done; the device goes to what is due first. With Start, on a shared device: when the batch is to be done by the plan; 0 leaves that to the driver
	Request  RequestID

	Reservation *Reservation // with Need: belongs to the policy and never changes; with Ask where the batch is the one that the plan next needs the device for
}

// Reservation is what a group of a plan may need of a device that it shares: every Period at
// most one batch, or AtOnce, of which each takes Duration and is to be done Deadline after it was closed. Where
// its schedule may begin again with the next request, a batch is closed Window after that.
type Reservation struct {
	Duration, Period, Deadline, Window time.Duration

	AtOnce int32 // batches of a burst that are closed together; 0 is one
}

// Policy is a pure state machine: the same events at the same instants yield
// the same actions. Step appends its actions to out and returns it. A clock
// that jumps back is treated as one that stood still.
//
// What a policy remembers between steps is in its exported fields (or what its MarshalJSON
// writes and UnmarshalJSON reads), so that a recording may begin in the middle of its life.
type Policy interface {
	Name() string
	Step(now Time, ev Event, out []Action) []Action
	// Len is the number of requests that wait.
	Len() int
	// Describe draws the state for logs and golden transcripts.
	Describe() string
}

// DefaultMaxQueue bounds the waiting requests of a policy where its Options
// do not. Deadlines keep queues far shorter; the bound is for memory's sake.
const DefaultMaxQueue = 1 << 20

// MaxBatch is the largest batch that a policy forms; longer tables of
// durations are cut there.
const MaxBatch = 1 << 14

// Delay is the time that a batch of b takes to reach its executor: Control +
// b·PerRequest (Symphony, section 4.6 and figure 13).
type Delay struct {
	Control    time.Duration
	PerRequest time.Duration
}

// Of is the delay of a batch of b.
func (d Delay) Of(b int) time.Duration { return d.Control + time.Duration(b)*d.PerRequest }

// Successor is a policy that can go on with what another has learned, so that a
// change of plan does not start from nothing.
type Successor interface {
	Policy
	// Inherit takes over what from has learned of the world, as far as it is
	// about the same things. Requests and executors are not part of it.
	Inherit(from Policy)
}

// String writes an action as one line.
func (a Action) String() string {
	switch a.Act {
	case Start:
		return fmt.Sprintf("start %v on executor %d of group %d", a.Batch, a.Executor, a.Group)
	case SetTimer:
		return fmt.Sprintf("timer at %v", a.At)
	case Drop:
		return fmt.Sprintf("drop %d: %v", a.Request, a.Reason)
	case Ask:
		return fmt.Sprintf("ask for executor %d until %v, due %v", a.Executor, a.At, a.Due)
	case Release:
		return fmt.Sprintf("release executor %d", a.Executor)
	case Need:
		if a.At == Never {
			return fmt.Sprintf("need executor %d no more", a.Executor)
		}
		return fmt.Sprintf("need executor %d at %v", a.Executor, a.At)
	}
	return "unknown action"
}

// String names the reason.
func (r Reason) String() string {
	switch r {
	case Late:
		return "late"
	case Full:
		return "full"
	}
	return "unknown reason"
}

// String writes an event as one line.
func (ev Event) String() string {
	r := &ev.Request
	switch ev.Kind {
	case Arrive:
		return fmt.Sprintf("request %d of class %d and size %d arrives, virtual arrival %v, deadline %v", r.ID, r.Class, r.Size, r.Arrival, r.Deadline)
	case Cancel:
		return fmt.Sprintf("request %d is cancelled", r.ID)
	case ExecutorUp:
		return fmt.Sprintf("executor %d of group %d is up, alone on its device: %t", ev.Executor, ev.Group, ev.Alone)
	case ExecutorFree:
		return fmt.Sprintf("executor %d is free, after %v in the engine", ev.Executor, ev.Took)
	case ExecutorGone:
		return fmt.Sprintf("executor %d is gone", ev.Executor)
	case Timer:
		return "the timer fires"
	case Granted:
		return fmt.Sprintf("the device of executor %d is granted", ev.Executor)
	case Refused:
		if ev.At == Never {
			return fmt.Sprintf("the device of executor %d is refused until it is idle", ev.Executor)
		}
		return fmt.Sprintf("the device of executor %d is refused until %v", ev.Executor, ev.At)
	case DeviceIdle:
		return fmt.Sprintf("the device of executor %d is idle", ev.Executor)
	case DeviceAlone:
		return fmt.Sprintf("executor %d is alone on its device: %t", ev.Executor, ev.Alone)
	}
	return "unknown event"
}
