package workflows

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Settings of one service's workflow. The zero value works.
type Settings struct {
	Gateway          string        // address that executors dial
	SearchAttributes bool          // set search attributes; the namespace must know them
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
