package dispatch

import "time"

// Time is an instant on the driver's clock: the duration since an epoch of the
// driver's choice.
type Time = time.Duration

// RequestID names a request to one module; the driver never reuses one while
// it is in flight.
type RequestID uint64

// ExecutorID names an executor; small and dense, chosen by the driver.
type ExecutorID int32

// Request is what a policy knows of a request.
type Request struct {
	ID       RequestID
	Class    int32 // which module or model; 0 where a policy serves only one (see PoolOptions.Models)
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
	Cancel                       // Request.ID is no longer wanted; in a pool its Class and Deadline, if set, find it faster
	ExecutorUp                   // Executor of Group is ready and idle
	ExecutorFree                 // Executor has finished its batch
	ExecutorGone                 // Executor takes no more batches
	Timer                        // the instant asked for by SetTimer has come
)

// Event is one input of a policy.
type Event struct {
	Kind     Kind
	Request  Request
	Executor ExecutorID
	Group    int32 // with ExecutorUp
	Took     Time  // with ExecutorFree: the engine's time for the batch; 0 if unknown
}

// Act of an Action.
type Act uint8

// The actions that a policy asks for.
const (
	Start    Act = iota + 1 // run Batch on Executor now
	SetTimer                // report Timer at At; replaces an earlier one
	Drop                    // Request will not be served; Reason says why
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
	Executor ExecutorID
	Group    int32
	Class    int32 // with Start: the Class that all requests of Batch have
	Batch    []RequestID
	At       Time // with SetTimer; with Start only where a pool has a Delay: when the batch begins
	Request  RequestID
	Reason   Reason
}

// Policy is a pure state machine: the same events at the same instants yield
// the same actions. Step appends its actions to out and returns it. A clock
// that jumps back is treated as one that stood still.
type Policy interface {
	Name() string
	Step(now Time, ev Event, out []Action) []Action
	// Len is the number of requests that wait.
	Len() int
	// Describe draws the state for logs and golden transcripts.
	Describe() string
}
