package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// State is the whole state of a service workflow. It is the workflow's input, so that it
// can continue as new.
type State struct {
	Kind     scheduler.Kind
	Name     string
	Settings Settings

	Spec       scheduler.Spec
	Beside     []scheduler.Spec // that were applied together with Spec
	Alone      bool             // planned without Beside, because something has changed since
	Generation int              // grows with every accepted change of Spec
	Life       int              `json:",omitempty"` // see placement.Deployment; 0 until it is known
	Cause      string           // of the latest change
	By         string           `json:",omitempty"` // who requested it; empty where nobody did
	Pending    bool             // Spec, or what it runs on, has changed and is not carried out
	Mend       string           `json:",omitempty"` // why what serves is to be carried out again; empty where it is not
	Try        bool             `json:",omitempty"` // Spec is tried first, where its update block requires it
	Profile    bool             // modules may lack profiles
	Again      bool             `json:",omitempty"` // measure what hosts keep, too

	Points map[string][]pipelines.Point // measured, by module
	Served map[string][]pipelines.Point `json:",omitempty"` // measured while serving, by module: go before any profile

	Transfer time.Duration `json:",omitempty"` // that plans count on for the way to an executor and back

	Phase    Phase
	Serving  *Deployed // what the gateway has installed
	Running  []Running
	Given    *scheduler.Plan `json:",omitempty"` // to be carried out, for Spec as it was applied
	Attempts int             // reschedules so far; numbers their workflows
	Trial    *Trial          `json:",omitempty"` // under way

	Gateways []activities.Member `json:",omitempty"` // that are present, as far as is known
	New      []activities.Member `json:",omitempty"` // those that still lack what serves
	Met      bool                `json:",omitempty"` // the gateways were fetched
	Seen     map[string]Seen     `json:",omitempty"` // the latest measures, by gateway

	Ended     map[string]string // executor workflows that ended, and why
	Lost      []string          // hosts that went
	Stopped   []string          `json:",omitempty"` // those of them that somebody has stopped
	Leaving   []string          `json:",omitempty"` // hosts that are about to
	Joined    bool              // a host has come since the last change began
	Reinstall bool              // the gateway has started again

	// Astray is why its record of what runs may be wrong: it takes stock before it does
	// anything else. Renewed means that gateways may have later generations than it has.
	Astray  string `json:",omitempty"`
	Renewed bool   `json:",omitempty"`

	Missing map[string]Missing `json:",omitempty"` // executors that gateways wait for, by gateway

	NotInstalled bool // the gateway has started again and could not take what serves
	Stop         Stop
	Stopping     Stop `json:",omitempty"` // under way

	Decisions    []Decision
	Declarations Declarations `json:",omitempty"` // oldest first: served, and still to be carried out
	Carries      int          `json:",omitempty"` // the generation of the declaration that serves, where later ones could not be carried out; see carried
	Failure      *Failure
	Failures     int // in a row
	RetryAt      time.Time

	Detectors Detectors
	Measures  *autoscale.Measures // the latest
	Answered  autoscale.Answered  `json:",omitzero"` // by the variants of modules
	Handled   int                 // messages in this run
}

// Stop means that a service is to stop running.
type Stop string

// The ways to stop.
const (
	StopDrain  Stop = "drain"
	StopDelete Stop = "delete"
)

// Detectors watch what the gateway measures for what calls for another plan: of a
// pipeline its rate and what its batches take, of a pool the sizes of queries, of
// a function the rate of each application, of a cluster the requests that are not in time
// and the devices that idle.
type Detectors struct {
	Rate         autoscale.Drift
	Rise         autoscale.Rise      `json:",omitzero"`
	Pace         autoscale.Pace      `json:",omitzero"`
	Transfers    autoscale.Transfers `json:",omitzero"`
	Arrivals     autoscale.Arrivals  `json:",omitzero"`
	Fanouts      autoscale.Fanouts   `json:",omitzero"`
	Promise      autoscale.Promise   `json:",omitzero"`
	Sizes        autoscale.MixDrift  `json:",omitzero"`
	Applications []ApplicationDrift  `json:",omitempty"` // in the order of the spec
	Learning     autoscale.Learning  `json:",omitzero"`

	Cluster size.Cluster `json:",omitzero"`
	Scale   *size.Advice `json:",omitempty"` // the latest that was not to stay
}

// ApplicationDrift watches the rate of one application.
type ApplicationDrift struct {
	Application string
	Drift       autoscale.Drift
}

// Missing are executors of what a gateway serves that are not attached to it.
type Missing struct {
	Gateway    string
	Generation int
	Executors  []string // none any more where empty
}

// Seen is what a gateway saw lately.
type Seen struct {
	At       time.Time // when it was sent
	Measures autoscale.Measures
}

// Trial is a generation that is tried on a share of requests.
type Trial struct {
	Generation int
	Since      time.Time
	Update     pipelines.Update
	By         map[string]rollout.Seen `json:",omitempty"` // by gateway
	Pace       autoscale.Pace          `json:",omitzero"`

	// Slower are its modules that have taken longer than profiled, by name.
	Slower map[string]autoscale.PaceAdvice `json:",omitempty"`

	Deployed Deployed
	Running  []Running `json:",omitempty"`
}

// seen is what all gateways saw together.
func (t *Trial) seen() rollout.Seen {
	all := rollout.Seen{Generation: t.Generation}
	for _, gateway := range workflow.DeterministicKeys(t.By) {
		all = all.Add(t.By[gateway])
	}
	return all
}

// declarationsKept bounds the declarations that are remembered beside the one that serves and those
// still to be carried out.
const declarationsKept = 5

// Declaration is a spec that a caller has applied, rescaled or gone back to. Generations in
// between, which follow what is measured, have none of their own.
type Declaration struct {
	Generation int // its first
	At         time.Time
	Reason     string
	Served     bool
	Spec       scheduler.Spec
}

// Declarations holds declarations, oldest first.
type Declarations []Declaration

// By is the generation of the declaration that a generation carries out; 0 where it is
// not known.
func (l Declarations) By(generation int) int {
	for _, d := range slices.Backward(l) {
		if d.Generation <= generation {
			return d.Generation
		}
	}
	return 0
}

// Carried is the list once a generation serves: without declarations that were replaced
// before they served, and without the oldest of those that did.
func (l Declarations) Carried(generation int) Declarations {
	by := l.By(generation)
	l = slices.DeleteFunc(l, func(d Declaration) bool { return !d.Served && d.Generation < by })
	past := 0
	for i := range l {
		if d := &l[i]; d.Generation <= generation {
			d.Served = true
			past++
		}
	}
	return slices.Delete(l, 0, max(0, past-declarationsKept-1))
}

// Earlier finds the declaration to go back to: that of a generation, or with 0 the one
// that served before the one in force. While another one than that which serves is in
// force, because it is under way or could not be carried out, it is that which serves.
func (l Declarations) Earlier(to, serving, inForce int) (Declaration, error) {
	serves, asked := l.By(serving), l.By(inForce)
	if asked != serves && to == 0 {
		to = serves
	}
	var kept []string
	for _, d := range slices.Backward(l) {
		switch {
		case !d.Served || d.Generation == asked:
		case to == 0 && d.Generation < serves, to == d.Generation:
			return d, nil
		default:
			kept = append(kept, fmt.Sprint(d.Generation))
		}
	}
	switch {
	case len(kept) == 0:
		return Declaration{}, errors.New("has served no other declaration that it could go back to")
	case to == asked && to != 0:
		return Declaration{}, fmt.Errorf("has the declaration of generation %d already; those before it that are kept: %s", to, strings.Join(kept, ", "))
	}
	return Declaration{}, fmt.Errorf("keeps no declaration of generation %d; it keeps those of %s", to, strings.Join(kept, ", "))
}

// DeclarationSummary is a Declaration without its spec.
type DeclarationSummary struct {
	Generation int
	At         time.Time
	Reason     string
	Current    bool // it serves
}

// Summaries are those that have served.
func (l Declarations) Summaries(serving int) (all []DeclarationSummary) {
	current := l.By(serving)
	for _, d := range l {
		if d.Served {
			all = append(all, DeclarationSummary{d.Generation, d.At, d.Reason, d.Generation == current})
		}
	}
	return all
}

// Settings of one service's workflow. The zero value works.
type Settings struct {
	Gateway          string        // address that executors dial
	SearchAttributes bool          // set search attributes; the namespace must have them
	HeartbeatTimeout time.Duration // of executors; 0 means activities.DefaultHeartbeatTimeout
	PrepareTimeout   time.Duration // for new executors to be ready; 0 means DefaultPrepareTimeout
	RetryAfter       time.Duration // after a failed change; doubles up to ten times that; 0 means DefaultRetryAfter
	MaxShare         float64       // see placement.Request
	ContinueAfter    int           // continue as new after so many messages; 0: when the server suggests it
	Fixed            bool          // do not follow what is measured
	Drift            autoscale.DriftOptions
	Mix              autoscale.MixOptions      `json:",omitzero"` // of pools
	Pace             autoscale.PaceOptions     `json:",omitzero"`
	Transfers        autoscale.TransferOptions `json:",omitzero"`
}

// Defaults of Settings.
const (
	DefaultPrepareTimeout = 3 * time.Minute
	DefaultRetryAfter     = 30 * time.Second
)

// Deployed is one generation of a service as a gateway serves it.
type Deployed struct {
	Generation int
	Life       int            `json:",omitempty"` // of the service
	Spec       scheduler.Spec // with the profiles that it was planned with
	Plan       scheduler.Plan
	Slots      []placement.Slot
}

// Deployment is it as gateways take it.
func (d *Deployed) Deployment() placement.Deployment {
	all := d.Spec.Deploy(d.Generation, d.Plan)
	all.Slots, all.Life = d.Slots, d.Life
	return all
}

// Rate is in requests per second.
func (d *Deployed) Rate() float64 { return d.Spec.Rate(d.Plan) }

// Running is an executor and the workflow that owns it.
type Running struct {
	Slot     placement.Slot
	Workflow string // ID
}

// compareDeployed is the change from what serves, nil for nothing, to another plan.
func compareDeployed(serving *Deployed, to *Deployed) Change {
	c := Change{ToRate: to.Rate(), ToCost: to.Plan.CostPerHour(), ToSLO: to.Spec.SLO(), First: serving == nil}
	if serving != nil {
		c.FromRate, c.FromCost, c.FromSLO = serving.Rate(), serving.Plan.CostPerHour(), serving.Spec.SLO()
	}
	return c
}

// SpecID is the workflow ID of the service that a spec declares.
func SpecID(s scheduler.Spec) string { return ServiceID(s.Kind(), s.Name()) }

// executorID is unique for every start of an executor, because an executor of
// the same name may still be draining.
func executorID(executor string, n int) string {
	return fmt.Sprintf("executor/%s/%d", executor, n)
}

// TypeReschedule is the type of the workflow.
const TypeReschedule = "reschedule"

// Signals.
const (
	SignalGateways = "gateways" // []activities.Member, to the reschedule under way: those that there are
	SignalProgress = "progress" // Phase, from the reschedule under way
)

// Phase of a service.
type Phase string

// The phases.
const (
	Waiting     Phase = "waiting"     // nothing applied yet, or a change failed and nothing serves
	Profiling   Phase = "profiling"   // measuring modules
	Planning    Phase = "planning"    // choosing plan and placement
	Reconciling Phase = "reconciling" // starting executors, moving traffic
	Trying      Phase = "trying"      // another generation has a share of the requests
	Serving     Phase = "serving"
	Draining    Phase = "draining" // finishing what is under way
	Drained     Phase = "drained"  // runs nothing; apply or rescale resumes
	Deleted     Phase = "deleted"
)
