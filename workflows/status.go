package workflows

import (
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Status is a service at one moment, for people and programs. It tells of what
// serves; a change that is under way, or could not be carried out, stands in
// Asked.
type Status struct {
	Kind       scheduler.Kind
	Name       string
	Phase      Phase
	Generation int             // that serves; while none does, the one that is asked for
	Serving    int             // generation that serves; 0 when none does
	Rate       float64         // requests per second of that generation; of a pool, what its plan sustains
	Cost       float64         // per hour, of the plan that serves
	Cause      string          // of that generation
	Asked      *Asked          `json:",omitempty"` // nil when what serves is what is asked for
	Trial      *TrialStatus    `json:",omitempty"` // of Asked, while it is tried on a share of requests
	Pending    bool            // a change is due or under way: Failure is that of one before
	Policy     string          // that made the plan that serves; while none does, as declared
	CostModel  string          `json:",omitempty"` // of pipelines
	Dispatch   string          `json:",omitempty"` // policy that dispatches; empty when nothing serves
	Plan       *scheduler.Plan // that serves; nil when none does
	Executors  []placement.Slot
	Missing    []string             `json:",omitempty"` // those of Executors that a gateway waits for
	Files      []ModuleFiles        `json:",omitempty"` // of the plan that serves
	Decisions  []Decision           // oldest first
	Declared   []DeclarationSummary `json:",omitempty"` // declarations that have served and are kept, oldest first
	Failure    *Failure
	Measures   *autoscale.Measures

	// Void are the modules that have been slower for long than the plan that
	// serves counts on, so that its promise does not hold. Healed are those that
	// it counts on with what was measured while serving, in place of their
	// profile. Disturbed says which profiles were measured on a busy machine.
	Void      []Pace `json:",omitempty"`
	Healed    []Pace `json:",omitempty"`
	Disturbed string `json:",omitempty"`

	// Arrivals says how requests come where that has long been other than declared,
	// and Away at which rate where that has lately not been the one planned for.
	Arrivals *autoscale.ArrivalsAdvice `json:",omitempty"`
	Away     *autoscale.Advice         `json:",omitempty"`

	// Broken says why too few requests have been in time for long; nil while enough are.
	Broken *autoscale.Broken `json:",omitempty"`

	// Answered is which variants have answered how many requests, where modules have some.
	Answered autoscale.Answered `json:",omitzero"`

	// Scale is by how many devices a cluster should grow or shrink, by what was measured.
	Scale *size.Advice `json:",omitempty"`

	// Transfers is how long the way to the executors of each host and back takes.
	// Transfer is what the next plan counts on for it.
	Transfers []autoscale.HostTransferSeen `json:",omitempty"`
	Transfer  time.Duration                `json:",omitempty"`
}

// Asked is the latest change, while something else serves.
type Asked struct {
	Generation int
	Rate       float64 `json:",omitempty"` // requests per second; 0 of a pool, whose plan decides it
	Cause      string
}

// ModuleFiles are the files that a module runs with, by their digests.
type ModuleFiles struct {
	Module string
	Files  []pipelines.File
}

// Pace is a module whose batches take another time than its profile says.
type Pace struct {
	Module   string
	Hardware string
	Size     int           // requests of the batches that are compared
	Measured time.Duration // median
	Profiled time.Duration
	Held     time.Duration `json:",omitzero"` // for how long

	Concurrency int `json:",omitzero"` // batches at a time, where they are several
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
	By         string `json:",omitempty"` // who asked for it, as they said: USER@HOST; empty where nobody did
	Change     Change
	Start      int // executors
	Keep       int
	Stop       int
	Groups     int    `json:",omitempty"` // of a function's plan
	Failure    string // empty when it was carried out
}

// Change compares two plans in what matters to whoever pays.
type Change struct {
	FromRate, ToRate float64 // requests per second
	FromCost, ToCost float64 // money per hour
	FromSLO, ToSLO   time.Duration
	First            bool // there was no plan before
}
