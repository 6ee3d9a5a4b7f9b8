package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// hostRequest is what a service asks for: to carry out a spec on the fleet as it was seen.
type hostRequest struct {
	ID       string   // of the service's workflow
	Own      []string // IDs under which it holds devices
	Spec     scheduler.Spec
	View     activities.FleetView
	Given    *scheduler.Plan // nil to look for the best
	Transfer time.Duration
	MaxShare float64
	Runs     bool // something of it runs
	Apart    bool // it is only tried, on what nothing else uses
}

// Offers are the hosts that could be made of hardware that the service may run on.
func (c *hostRequest) Offers() (some []scheduler.Offer) {
	for _, o := range c.View.Offers() {
		for _, h := range c.Spec.Hardware {
			if h.Name == o.Hardware {
				some = append(some, o)
			}
		}
	}
	return some
}

// Ask asks for the hosts that a change failed for lack of, and says so in its error. Where
// none would help, what was asked for before is taken back.
func (c *hostRequest) Ask(ctx workflow.Context, err error) error {
	kind := activities.ReasonType(err)
	if c.Apart || kind != activities.TypeInfeasible && kind != activities.TypeMisfit {
		return err
	}
	wants := c.missing(ctx)
	if len(wants) == 0 && !c.Runs && c.keepsHost() {
		return c.giveUp(ctx, err)
	}
	if len(wants) == 0 && len(c.View.Wants[c.ID]) == 0 {
		return err
	}
	return askForHosts(ctx, activities.WantRequest{Service: c.ID, Version: c.View.Version, Wants: wants}, err)
}

// keepsHost says whether the service keeps a host that would be ended otherwise.
func (c *hostRequest) keepsHost() bool {
	return slices.ContainsFunc(c.View.Reserved[c.ID], func(s placement.Slot) bool { return c.View.Provisioned(s.Host) })
}

// giveUp gives back what modules were measured on, when nothing runs and nothing will.
func (c *hostRequest) giveUp(ctx workflow.Context, why error) error {
	var fleet *activities.Fleet
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "give back what was measured on"), fleet.Reserve, activities.Reservation{Service: c.ID}).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("devices were not given back", "error", err)
	}
	return why
}

// missing are the hosts with which the change could be carried out; nil where nothing is
// offered, or not enough.
func (c *hostRequest) missing(ctx workflow.Context) []activities.Want {
	offers := c.Offers()
	if len(offers) == 0 {
		return nil
	}
	var planning activities.Planning
	in := activities.MissingInput{Given: c.Given, MaxShare: c.MaxShare}
	in.Spec, in.Fleet = c.Spec, c.View.For(c.Own...)
	in.Fleet.Offers, in.Fleet.Transfer = offers, c.Transfer
	var reply activities.MissingReply
	if err := workflow.ExecuteActivity(planOptions(ctx, "look how many hosts are missing"), planning.Missing, in).Get(ctx, &reply); err != nil {
		workflow.GetLogger(ctx).Warn("it is not known how many hosts are missing", "error", err)
		return nil
	}
	if reply.Reason != "" {
		workflow.GetLogger(ctx).Info("all hosts that could be made would not be enough", "reason", reply.Reason)
	}
	return reply.Wants
}

// Rest is what a plan that serves with what there is could use beside: devices that a
// cluster lacks, hosts for the requests that a pipeline has to refuse.
func (c *hostRequest) Rest(ctx workflow.Context, plan scheduler.Plan) []activities.Want {
	if !runsShort(plan) {
		return nil
	}
	if plan.Cluster == nil {
		return c.missing(ctx)
	}
	for _, o := range c.Offers() {
		if o.Hardware == plan.Cluster.Hardware {
			return []activities.Want{{Hardware: o.Hardware, Hosts: min(o.Hosts, (plan.Cluster.Lacking+o.Devices-1)/o.Devices)}}
		}
	}
	return nil
}

// runsShort says that a plan serves with less than it should have.
func runsShort(p scheduler.Plan) bool {
	switch {
	case p.Cluster != nil:
		return p.Cluster.Lacking > 0
	case p.Pipeline != nil:
		return p.Pipeline.Carries > 0
	}
	return false
}
