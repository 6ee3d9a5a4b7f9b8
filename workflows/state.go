package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// State is everything a service workflow knows. It is the workflow's input, so
// that it can continue as new.
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
	By         string           `json:",omitempty"` // who asked for it; empty where nobody did
	Pending    bool             // Spec, or what it runs on, has changed and is not carried out
	Mend       string           `json:",omitempty"` // why what serves is to be carried out again; empty where it is not
	Try        bool             `json:",omitempty"` // Spec is tried first, where it says so
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
	New      []activities.Member `json:",omitempty"` // those that are still to be told what serves
	Met      bool                `json:",omitempty"` // the gateways were asked for
	Seen     map[string]Seen     `json:",omitempty"` // the latest measures, by gateway

	Ended     map[string]string // executor workflows that ended, and why
	Lost      []string          // hosts that went
	Leaving   []string          `json:",omitempty"` // hosts that are about to
	Joined    bool              // a host has come since the last change began
	Reinstall bool              // the gateway has started anew

	// Astray is why it may not know what runs: it looks before it does anything else. Renewed
	// says that gateways may have been told of later generations than it knows of.
	Astray  string `json:",omitempty"`
	Renewed bool   `json:",omitempty"`

	Missing map[string]Missing `json:",omitempty"` // executors that gateways wait for, by gateway

	NotInstalled bool // the gateway has started anew and could not take what serves
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

// Stop says that a service is to stop running.
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
	Pace         autoscale.Pace      `json:",omitzero"`
	Transfers    autoscale.Transfers `json:",omitzero"`
	Arrivals     autoscale.Arrivals  `json:",omitzero"`
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
	At       time.Time // when it said so
	Measures autoscale.Measures
}

// Trial is a generation that is tried on a share of requests.
type Trial struct {
	Generation int
	Since      time.Time
	Update     pipelines.Update
	By         map[string]rollout.Seen `json:",omitempty"` // by gateway
	Pace       autoscale.Pace          `json:",omitzero"`

	// Slower are its modules that have taken longer than their profiles say, by name.
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
