package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// place finds devices for the plan and reserves them, in turn with other services when
// one of them was faster. A plan without modules, of a function, needs none.
func (c *change) place(ctx workflow.Context) error {
	if len(c.deployment.Plan.Modules) == 0 && c.deployment.Cluster == nil {
		return nil
	}
	c.show(ctx, "placing executors")
	engines, err := c.identify(ctx)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := c.tryPlace(ctx, engines)
		if err == nil || activities.ReasonType(err) != activities.TypeConflict {
			return err
		}
		if workflow.GetVersion(ctx, patchSettle, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
			return c.settle(ctx, engines)
		}
		if attempt == placeAttempts {
			return err
		}
		if err := c.viewFleet(ctx); err != nil {
			return err
		}
	}
}

// patchSettle marks changes that wait for their turn to be placed after another service was
// faster; older ones try again some times.
const patchSettle = "placed in turn"

// settle places and reserves in one go, in turn with other services.
func (c *change) settle(ctx workflow.Context, engines map[string]placement.ModuleEngine) error {
	var fleet *activities.Fleet
	in := activities.SettleInput{Service: c.id, Own: c.own(), Apart: c.Apart, Wants: c.wants}
	in.Request, in.Cluster = c.request(engines)
	var out activities.Settled
	if err := workflow.ExecuteActivity(planOptions(ctx, "place and reserve, in turn with other services"), fleet.Settle, in).Get(ctx, &out); err != nil {
		return err
	}
	c.view = out.View
	return c.placed(ctx, out.Placement)
}

// modulesOf are those of a deployment; of a cluster, those of all its pipelines.
func modulesOf(d *placement.Deployment) []pipelines.Module {
	if d.Cluster != nil {
		return d.Cluster.Union()
	}
	return d.Pipeline.Modules
}

// identify reads on some host which model every module has.
func (c *change) identify(ctx workflow.Context) (engines map[string]placement.ModuleEngine, err error) {
	hosts := c.view.Nearest()
	if len(hosts) == 0 { // of a plan that was made elsewhere
		return nil, temporal.NewNonRetryableApplicationError("workflows: there is no host; start a worker", activities.TypeMisfit, nil)
	}
	if len(hosts) > 1 && workflow.GetVersion(ctx, patchNext, workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		hosts = hosts[:1]
	}
	ctx = shortOptions(ctx, "read the digests of the models")
	for i, name := range hosts {
		patience := HostPatience
		if i < len(hosts)-1 {
			patience = nextPatience
		}
		var host *activities.Host
		on := workflow.WithScheduleToStartTimeout(workflow.WithTaskQueue(ctx, activities.HostQueue(name)), patience)
		err = workflow.ExecuteActivity(on, host.Identify, activities.IdentifyInput{Modules: modulesOf(&c.deployment)}).Get(on, &engines)
		var late *temporal.TimeoutError
		if !errors.As(err, &late) || late.TimeoutType() != enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START {
			break
		}
	}
	return engines, err
}

const (
	// patchNext marks changes that go on to the next host where one does not take what any can do.
	patchNext = "next host"

	// nextPatience is how long such work may wait for its host while there is another.
	nextPatience = time.Second
)

func (c *change) tryPlace(ctx workflow.Context, engines map[string]placement.ModuleEngine) error {
	var planning activities.Planning
	var fleet *activities.Fleet
	var placed placement.Placement
	free := c.view.For(c.own()...)
	summary := fmt.Sprintf("place the plan on %d devices", len(free.Devices))
	var done workflow.Future
	request, cluster := c.request(engines)
	if cluster != nil {
		cluster.Devices, cluster.Reserved, cluster.Start = free.Devices, free.Held, c.view.Version
		done = workflow.ExecuteActivity(shortOptions(ctx, summary), planning.PlaceCluster, *cluster)
	} else {
		request.Devices, request.Reserved = free.Devices, free.Held
		request.Start = c.view.Version // which is higher for the next: it grows with the reservation
		done = workflow.ExecuteActivity(shortOptions(ctx, summary), planning.Place, *request)
	}
	if err := done.Get(ctx, &placed); err != nil {
		return err
	}
	reservation := activities.Reservation{Service: c.id, Version: c.view.Version, Slots: placed.Slots, Wants: c.wants}
	summary = fmt.Sprintf("reserve %d slots", len(placed.Slots))
	if err := workflow.ExecuteActivity(fleetOptions(ctx, summary), fleet.Reserve, reservation).Get(ctx, nil); err != nil {
		return err
	}
	return c.placed(ctx, placed)
}

// request makes the request of a placement, of a cluster or of anything else; its devices
// are filled in later.
func (c *change) request(engines map[string]placement.ModuleEngine) (*placement.Request, *placement.ClusterRequest) {
	if cluster := c.deployment.Cluster; cluster != nil {
		return nil, &placement.ClusterRequest{Cluster: *cluster, Engines: engines, Actual: slotsOf(c.Running)}
	}
	return &placement.Request{
		Pipeline: c.deployment.Pipeline, Plan: c.deployment.Plan, Engines: engines, Actual: slotsOf(c.Running),
		MaxShare: c.Settings.MaxShare, Whole: c.Spec.Pool != nil,
	}, nil
}

// placed takes over the reserved slots and computes what to start, keep and stop.
func (c *change) placed(ctx workflow.Context, p placement.Placement) error {
	var planning activities.Planning
	c.next.Slots, c.deployment.Slots = p.Slots, p.Slots
	in := activities.ReconcileInput{Desired: p.Slots, Actual: slotsOf(c.Running)}
	return workflow.ExecuteActivity(shortOptions(ctx, "compare what runs with the placement"), planning.Reconcile, in).Get(ctx, &c.changes)
}

// hostRequest requests the hosts that a spec lacks on the fleet as it was seen.
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

// Ask requests the hosts whose lack failed a change, and adds that to its error. Where none
// would help, an earlier request is withdrawn.
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

// keepsHost reports whether the service keeps a host that would be ended otherwise.
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

// runsShort reports that a plan serves with less than it should have.
func runsShort(p scheduler.Plan) bool {
	switch {
	case p.Cluster != nil:
		return p.Cluster.Lacking > 0
	case p.Pipeline != nil:
		return p.Pipeline.Carries > 0
	}
	return false
}

// askForHosts requests hosts on behalf of a service, whose lack caused why, and returns why
// with that added as an error of type TypeAwaits. Without wants it withdraws an earlier
// request.
func askForHosts(ctx workflow.Context, r activities.WantRequest, why error) error {
	var all []string
	for _, w := range r.Wants {
		all = append(all, quantity.Count(w.Hosts, "host")+" of "+w.Hardware)
	}
	text := strings.Join(all, " and ")
	summary := "request " + text
	if text == "" {
		summary = "withdraw the request for hosts"
	}
	var fleet *activities.Fleet
	if err := workflow.ExecuteActivity(fleetOptions(ctx, summary), fleet.Want, r).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("no hosts were requested of the fleet", "error", err)
		return why
	}
	if text == "" {
		return why
	}
	return temporal.NewNonRetryableApplicationError(activities.Reason(why)+"; asked for "+text, activities.TypeAwaits, nil)
}
