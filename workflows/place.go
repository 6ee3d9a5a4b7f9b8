package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
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
	var host *activities.Host
	near := c.view.Near()
	if near == "" { // of a plan that was made elsewhere
		return nil, temporal.NewNonRetryableApplicationError("workflows: there is no host; start a worker", activities.TypeMisfit, nil)
	}
	ctx = shortOptions(ctx, "read the digests of the models")
	ctx = workflow.WithTaskQueue(ctx, activities.HostQueue(near))
	ctx = workflow.WithScheduleToStartTimeout(ctx, HostPatience)
	err = workflow.ExecuteActivity(ctx, host.Identify, activities.IdentifyInput{Modules: modulesOf(&c.deployment)}).Get(ctx, &engines)
	return engines, err
}

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

// request asks for a placement, of a cluster or of anything else, on devices still to be said.
func (c *change) request(engines map[string]placement.ModuleEngine) (*placement.Request, *placement.ClusterRequest) {
	if cluster := c.deployment.Cluster; cluster != nil {
		return nil, &placement.ClusterRequest{Cluster: *cluster, Engines: engines, Actual: slotsOf(c.Running)}
	}
	return &placement.Request{
		Pipeline: c.deployment.Pipeline, Plan: c.deployment.Plan, Engines: engines, Actual: slotsOf(c.Running),
		MaxShare: c.Settings.MaxShare, Whole: c.Spec.Pool != nil,
	}, nil
}

// placed takes what is reserved over, and has it said what to start, keep and stop.
func (c *change) placed(ctx workflow.Context, p placement.Placement) error {
	var planning activities.Planning
	c.next.Slots, c.deployment.Slots = p.Slots, p.Slots
	in := activities.ReconcileInput{Desired: p.Slots, Actual: slotsOf(c.Running)}
	return workflow.ExecuteActivity(shortOptions(ctx, "say what to start, keep and stop"), planning.Reconcile, in).Get(ctx, &c.changes)
}
