package workflows

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// Phase of a pipeline.
type Phase string

// The phases.
const (
	Waiting     Phase = "waiting"     // nothing applied yet, or a change failed and nothing serves
	Profiling   Phase = "profiling"   // measuring modules
	Planning    Phase = "planning"    // choosing plan and placement
	Reconciling Phase = "reconciling" // starting executors, moving traffic
	Serving     Phase = "serving"
	Draining    Phase = "draining" // finishing what is under way
	Drained     Phase = "drained"  // runs nothing; apply or rescale resumes
	Deleted     Phase = "deleted"
)

// Spec is what a user asks for.
type Spec struct {
	Pipeline pipelines.Pipeline
	Hardware []pipelines.Hardware
	Options  plan.Options

	// Pool is set where queries of different sizes are to be served: Pipeline
	// then stands for it, as pool.Pipeline makes it, and PoolOptions say how to
	// plan in place of Options.
	Pool        *pipelines.Pool `json:",omitempty"`
	PoolOptions pool.Options    `json:",omitzero"`
}

// ApplyRequest replaces the spec of a pipeline.
type ApplyRequest struct {
	Spec   Spec
	Expect int    // generation that must be the current one; 0 for any
	Reason string // for the history; empty means "applied"
}

// RescaleRequest changes the rate that is planned for.
type RescaleRequest struct {
	Rate   float64 // requests per second
	Expect int     // as in ApplyRequest
	Reason string
}

// ChangeReply answers an update as soon as the change is accepted.
type ChangeReply struct {
	Generation int
	Unchanged  bool // the spec was in force already
}

// Settings of one pipeline's workflow. The zero value works.
type Settings struct {
	Gateway          string        // address that executors dial
	SearchAttributes bool          // set search attributes; the namespace must know them
	HeartbeatTimeout time.Duration // of executors; 0 means activities.DefaultHeartbeatTimeout
	PrepareTimeout   time.Duration // for new executors to be ready; 0 means DefaultPrepareTimeout
	RetryAfter       time.Duration // after a failed change; doubles up to ten times that; 0 means DefaultRetryAfter
	MaxShare         float64       // see placement.Request
	ContinueAfter    int           // continue as new after so many messages; 0: when the server suggests it
	Fixed            bool          // do not follow the measured rate
	Drift            autoscale.DriftOptions
	Mix              autoscale.MixOptions  `json:",omitzero"` // of pools
	Pace             autoscale.PaceOptions `json:",omitzero"`
}

// Defaults of Settings.
const (
	DefaultPrepareTimeout = 3 * time.Minute
	DefaultRetryAfter     = 30 * time.Second
)

// State is everything a pipeline workflow knows. It is the workflow's input,
// so that it can continue as new.
type State struct {
	Name     string
	Settings Settings

	Spec       Spec
	Generation int    // grows with every accepted change of Spec
	Cause      string // of the latest change
	Pending    bool   // Spec, or what it runs on, has changed and is not carried out
	Profile    bool   // modules may lack profiles
	Again      bool   `json:",omitempty"` // measure what hosts keep, too

	Points   map[string][]pipelines.Point // measured, by module
	Served   map[string][]pipelines.Point `json:",omitempty"` // measured while serving, by module: go before any profile
	Phase    Phase
	Serving  *placement.Deployment // what the gateway has installed
	Running  []Running
	Attempts int // reschedules so far; numbers their workflows

	Ended     map[string]string // executor workflows that ended, and why
	Lost      []string          // hosts that went
	Joined    bool              // a host has come since the last change began
	Reinstall bool              // the gateway has started anew
	Stop      Stop
	Why       string // reason of Stop

	Decisions []Decision
	Failure   *Failure
	Failures  int // in a row
	RetryAt   time.Time

	Drift    autoscale.Drift
	Pace     autoscale.Pace      `json:",omitzero"`
	Pool     *pool.Plan          `json:",omitempty"` // of a pool: the plan that serves
	Mix      autoscale.MixDrift  `json:",omitzero"`  // of a pool
	Measures *autoscale.Measures // the latest
	Handled  int                 // messages in this run
}

// Stop says that a pipeline is to stop running.
type Stop string

// The ways to stop.
const (
	StopDrain  Stop = "drain"
	StopDelete Stop = "delete"
)

// Running is an executor and the workflow that owns it.
type Running struct {
	Slot     placement.Slot
	Workflow string // ID
}

// FleetChange tells a pipeline of hosts that came and went.
type FleetChange struct {
	Joined []string
	Lost   []string
}

// ExecutorEnded tells a pipeline that an executor is no more.
type ExecutorEnded struct {
	Workflow string
	Executor string
	Reason   string
}

// Failure is why the latest change was not carried out.
type Failure struct {
	Generation int
	At         time.Time
	Reason     string
	Type       string    // activities.TypeInfeasible and so on; may be empty
	RetryAt    time.Time // zero when only a new spec or host helps
}

// Decision is one change that was tried.
type Decision struct {
	Generation int
	At         time.Time
	Reason     string
	Change     Change
	Start      int // executors
	Keep       int
	Stop       int
	Failure    string // empty when it was carried out
}

// Change compares two plans in what matters to whoever pays.
type Change struct {
	FromRate, ToRate float64 // requests per second
	FromCost, ToCost float64 // money per hour
	FromSLO, ToSLO   time.Duration
	First            bool // there was no plan before
}
