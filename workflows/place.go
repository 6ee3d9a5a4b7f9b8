package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows/fleet"
	"github.com/harpagon/harpagon/workflows/options"
)

// place finds devices for the plan and reserves them, over again when another
// service was faster. A plan without modules, of a function, needs none.
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
		if err == nil || activities.ReasonType(err) != activities.TypeConflict || attempt == placeAttempts {
			return err
		}
		if err := c.viewFleet(ctx); err != nil {
			return err
		}
	}
}

// modules are those of a deployment; of a cluster, those of all its pipelines.
func modules(d *placement.Deployment) []pipelines.Module {
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
	ctx = options.Short(ctx, "read the digests of the models")
	ctx = workflow.WithTaskQueue(ctx, activities.HostQueue(near))
	ctx = workflow.WithScheduleToStartTimeout(ctx, fleet.HostPatience)
	err = workflow.ExecuteActivity(ctx, host.Identify, activities.IdentifyInput{Modules: modules(&c.deployment)}).Get(ctx, &engines)
	return engines, err
}

func (c *change) tryPlace(ctx workflow.Context, engines map[string]placement.ModuleEngine) error {
	var planning activities.Planning
	var fleet *activities.Fleet
	var placed placement.Placement
	free := c.view.For(c.own()...)
	summary := fmt.Sprintf("place the plan on %d devices", len(free.Devices))
	var done workflow.Future
	if cluster := c.deployment.Cluster; cluster != nil {
		request := placement.ClusterRequest{Cluster: *cluster, Devices: free.Devices, Engines: engines, Reserved: free.Held, Actual: slots(c.Running), Start: c.view.Version}
		done = workflow.ExecuteActivity(options.Short(ctx, summary), planning.PlaceCluster, request)
	} else {
		request := placement.Request{
			Pipeline: c.deployment.Pipeline, Plan: c.deployment.Plan, Devices: free.Devices, Engines: engines,
			Reserved: free.Held, Actual: slots(c.Running), Start: c.view.Version, // which is higher for the next: it grows with the reservation
			MaxShare: c.Settings.MaxShare, Whole: c.Spec.Pool != nil,
		}
		done = workflow.ExecuteActivity(options.Short(ctx, summary), planning.Place, request)
	}
	if err := done.Get(ctx, &placed); err != nil {
		return err
	}
	reservation := activities.Reservation{Service: c.id, Version: c.view.Version, Slots: placed.Slots, Wants: c.wants}
	summary = fmt.Sprintf("reserve %d slots", len(placed.Slots))
	if err := workflow.ExecuteActivity(options.Fleet(ctx, summary), fleet.Reserve, reservation).Get(ctx, nil); err != nil {
		return err
	}
	c.next.Slots, c.deployment.Slots = placed.Slots, placed.Slots
	in := activities.ReconcileInput{Desired: placed.Slots, Actual: slots(c.Running)}
	return workflow.ExecuteActivity(options.Short(ctx, "say what to start, keep and stop"), planning.Reconcile, in).Get(ctx, &c.changes)
}
