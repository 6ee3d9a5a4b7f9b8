package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows/fleet"
	"github.com/harpagon/harpagon/workflows/options"
)

// Where provisioners could make hosts, a change that cannot be carried out asks for those
// that it is missing, and is tried again when one joins.

// offers are the hosts that could be made of hardware that the service may run on.
func (c *change) offers() (some []scheduler.Offer) {
	for _, o := range c.view.Offers() {
		for _, h := range c.Spec.Hardware {
			if h.Name == o.Hardware {
				some = append(some, o)
			}
		}
	}
	return some
}

// ask asks for the hosts that a change failed for lack of, and says so in its error. Where
// none would help, what was asked for before is taken back.
func (c *change) ask(ctx workflow.Context, err error) error {
	kind := activities.ReasonType(err)
	if c.Apart || kind != activities.TypeInfeasible && kind != activities.TypeMisfit {
		return err
	}
	wants := c.missing(ctx)
	if len(wants) == 0 && len(c.Running) == 0 && c.keepsHost() {
		return c.giveUp(ctx, err)
	}
	if len(wants) == 0 && len(c.view.Wants[c.id]) == 0 {
		return err
	}
	return fleet.Ask(ctx, activities.WantRequest{Service: c.id, Version: c.view.Version, Wants: wants}, err)
}

// keepsHost says whether the service keeps a host that would be ended otherwise.
func (c *change) keepsHost() bool {
	return slices.ContainsFunc(c.view.Reserved[c.id], func(s placement.Slot) bool { return c.view.Provisioned(s.Host) })
}

// giveUp gives back what modules were measured on, when nothing runs and nothing will.
func (c *change) giveUp(ctx workflow.Context, why error) error {
	var fleet *activities.Fleet
	if err := workflow.ExecuteActivity(options.Short(ctx, "give back what was measured on"), fleet.Reserve, activities.Reservation{Service: c.id}).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("devices were not given back", "error", err)
	}
	return why
}

// missing are the hosts with which the change could be carried out; nil where nothing is
// offered, or not enough.
func (c *change) missing(ctx workflow.Context) []activities.Want {
	offers := c.offers()
	if len(offers) == 0 {
		return nil
	}
	var planning activities.Planning
	in := activities.MissingInput{Given: c.Given, MaxShare: c.Settings.MaxShare}
	in.Spec, in.Fleet = c.Spec, c.view.For(c.own()...)
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

// askForRest asks for what a plan that serves with what there is could use beside: devices
// that a cluster lacks, hosts for the requests that a pipeline has to refuse.
func (c *change) askForRest(ctx workflow.Context) {
	if !short(&c.next) {
		return
	}
	cluster := c.next.Plan.Cluster
	if cluster == nil {
		c.wants = c.missing(ctx)
		return
	}
	for _, o := range c.offers() {
		if o.Hardware == cluster.Hardware {
			c.wants = []activities.Want{{Hardware: o.Hardware, Hosts: min(o.Hosts, (cluster.Lacking+o.Devices-1)/o.Devices)}}
		}
	}
}

// short says that what is deployed serves with less than it should have.
func short(d *Deployed) bool {
	switch p := &d.Plan; {
	case p.Cluster != nil:
		return p.Cluster.Lacking > 0
	case p.Pipeline != nil:
		return p.Pipeline.Carries > 0
	}
	return false
}
