package workflows

import (
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// RescheduleRequest is the input of the reschedule workflow.
type RescheduleRequest struct {
	Spec       Spec // profiles included
	Generation int
	Number     int    // of this attempt, over the pipeline's life
	Reason     string // why a new plan is wanted
	Serving    *placement.Deployment
	Running    []Running
	Settings   Settings
}

// RescheduleReply is its result: what serves now.
type RescheduleReply struct {
	Deployment  placement.Deployment
	Running     []Running
	Change      Change
	Start, Stop int // executors
	Warning     string
	Pool        *pool.Plan `json:",omitempty"` // of a pool
}

// placeAttempts bounds how often a placement is redone because the fleet
// changed between looking and reserving.
const placeAttempts = 8

// releaseTimeout bounds how long old executors may take to finish what they
// hold; they are cancelled afterwards either way.
const releaseTimeout = 2 * time.Minute

// change is one reschedule under way.
type change struct {
	RescheduleRequest
	view    activities.FleetView
	plan    plan.Plan
	pool    *pool.Plan // of a pool
	slots   []placement.Slot
	changes placement.Changes
	ends    []workflow.Future // of those, as long as they run
	started []Running
	warning string
}

// Reschedule leads a pipeline from the plan that serves to the best plan for
// the spec. It makes before it breaks: until the new executors are ready,
// nothing changes for requests, and when it fails, what it started is taken
// back.
func Reschedule(ctx workflow.Context, in RescheduleRequest) (RescheduleReply, error) {
	c := &change{RescheduleRequest: in}
	c.show(ctx, "choosing a plan")
	if err := c.choose(ctx); err != nil {
		return RescheduleReply{}, err
	}
	c.show(ctx, "placing executors")
	if err := c.place(ctx); err != nil {
		return RescheduleReply{}, err
	}
	if err := c.carryOut(ctx); err != nil {
		c.undo(ctx)
		return RescheduleReply{}, err
	}
	c.retire(ctx)
	c.show(ctx, "done")
	return RescheduleReply{
		Deployment: c.deployment(), Running: c.running(), Change: c.compare(),
		Start: len(c.changes.Start), Stop: len(c.changes.Stop), Warning: c.warning, Pool: c.pool,
	}, nil
}

// choose looks which hardware there is and plans for it.
func (c *change) choose(ctx workflow.Context) error {
	if err := c.look(ctx); err != nil {
		return err
	}
	hardware, err := available(c.Spec.Hardware, c.view.Devices())
	if err != nil {
		return err
	}
	if c.Spec.Pool != nil {
		return c.choosePool(ctx, hardware)
	}
	problem := plan.Problem{Pipeline: c.Spec.Pipeline, Hardware: hardware}
	var planning activities.Planning
	var budgets plan.Budgets
	split := activities.SplitInput{Problem: problem, Options: c.Spec.Options}
	summary := fmt.Sprintf("split %v among %d modules at %s/s", c.Spec.Pipeline.SLO, len(c.Spec.Pipeline.Modules), rate(c.Spec.Pipeline.Rate))
	if err := workflow.ExecuteActivity(quick(ctx, summary), planning.SplitLatency, split).Get(ctx, &budgets); err != nil {
		return err
	}
	schedule := activities.ScheduleInput{Problem: problem, Options: c.Spec.Options, Budgets: budgets}
	return workflow.ExecuteActivity(quick(ctx, "choose batches, hardware and machines"), planning.ScheduleModules, schedule).Get(ctx, &c.plan)
}

func (c *change) look(ctx workflow.Context) error {
	var fleet *activities.Fleet
	return workflow.ExecuteActivity(quick(ctx, "look which devices exist and are free"), fleet.Watch, c.Spec.Pipeline.Name).Get(ctx, &c.view)
}

// available is the declared hardware that the fleet has, with no more of each
// than there is.
func available(declared []pipelines.Hardware, devices []placement.Device) ([]pipelines.Hardware, error) {
	count := map[string]int{}
	for _, d := range devices {
		count[d.Hardware]++
	}
	var all []pipelines.Hardware
	for _, h := range declared {
		if n := count[h.Name]; n > 0 {
			if h.Count == 0 || n < h.Count {
				h.Count = n
			}
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		return nil, temporal.NewNonRetryableApplicationError(
			"workflows: no host has a device of the hardware that is declared; start a worker on a host that has one", activities.TypeMisfit, nil)
	}
	return all, nil
}

// place finds devices and reserves them, over again when another pipeline was
// faster.
func (c *change) place(ctx workflow.Context) error {
	engines, err := c.identify(ctx)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := c.tryPlace(ctx, engines)
		if err == nil || kind(err) != activities.TypeConflict || attempt == placeAttempts {
			return err
		}
		if err := c.look(ctx); err != nil {
			return err
		}
	}
}

func (c *change) identify(ctx workflow.Context) (engines map[string]placement.ModuleEngine, err error) {
	var host *activities.Host
	name := c.view.Hosts[0].Name // choose has made sure that there is one
	ctx = quick(ctx, "read the digests of the models")
	ctx = workflow.WithTaskQueue(ctx, activities.HostQueue(name))
	ctx = workflow.WithScheduleToStartTimeout(ctx, hostPatience)
	err = workflow.ExecuteActivity(ctx, host.Identify, activities.IdentifyInput{Modules: c.Spec.Pipeline.Modules}).Get(ctx, &engines)
	return engines, err
}

func (c *change) tryPlace(ctx workflow.Context, engines map[string]placement.ModuleEngine) error {
	var planning activities.Planning
	var fleet *activities.Fleet
	var placed placement.Placement
	name := c.Spec.Pipeline.Name
	request := placement.Request{
		Pipeline: c.Spec.Pipeline, Plan: c.plan, Devices: c.view.Devices(), Engines: engines,
		Reserved: c.view.Others(name, workflow.DeterministicKeys(c.view.Reserved)), Actual: slots(c.Running),
		MaxShare: c.Settings.MaxShare, Whole: c.Spec.Pool != nil,
	}
	summary := fmt.Sprintf("place the plan on %d devices", len(request.Devices))
	if err := workflow.ExecuteActivity(quick(ctx, summary), planning.Place, request).Get(ctx, &placed); err != nil {
		return err
	}
	c.slots = placed.Slots
	reservation := activities.Reservation{Pipeline: name, Version: c.view.Version, Slots: c.slots}
	summary = fmt.Sprintf("reserve %d slots", len(c.slots))
	if err := workflow.ExecuteActivity(quick(ctx, summary), fleet.Reserve, reservation).Get(ctx, nil); err != nil {
		return err
	}
	in := activities.ReconcileInput{Desired: c.slots, Actual: slots(c.Running)}
	return workflow.ExecuteActivity(quick(ctx, "say what to start, keep and stop"), planning.Reconcile, in).Get(ctx, &c.changes)
}

// carryOut starts what is missing and moves traffic once it is ready.
func (c *change) carryOut(ctx workflow.Context) error {
	c.show(ctx, "starting executors")
	c.report(ctx, Reconciling)
	for _, slot := range c.changes.Start {
		if err := c.start(ctx, slot); err != nil {
			return err
		}
	}
	var gateway *activities.GatewayActivities
	d := c.deployment()
	patience := orDefault(c.Settings.PrepareTimeout, DefaultPrepareTimeout)
	summary := fmt.Sprintf("wait until %d executors are ready", len(d.Slots))
	wait, give := workflow.WithCancel(atGateway(ctx, summary, patience))
	defer give()
	if err := c.ready(ctx, workflow.ExecuteActivity(wait, gateway.Prepare, d)); err != nil {
		return err
	}
	c.show(ctx, "moving traffic")
	summary = fmt.Sprintf("move traffic to generation %d: %s", c.Generation, c.compare().Describe())
	return workflow.ExecuteActivity(atGateway(ctx, summary, time.Minute), gateway.Install, d).Get(ctx, nil)
}

// ready waits until the gateway has all executors. One that ends before says why
// there will be no use in waiting.
func (c *change) ready(ctx workflow.Context, prepared workflow.Future) error {
	s := workflow.NewSelector(ctx)
	var err error
	s.AddFuture(prepared, func(f workflow.Future) { err = f.Get(ctx, nil) })
	if len(c.ends) > 0 && workflow.GetVersion(ctx, changeEnds, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		for _, end := range c.ends {
			s.AddFuture(end, func(f workflow.Future) {
				if err = f.Get(ctx, nil); err == nil {
					err = errors.New("workflows: an executor ended before traffic was moved to it; look at its workflow for why")
				}
			})
		}
	}
	s.Select(ctx)
	return err
}

// changeEnds names the change that made a reschedule look at executors that end
// while it waits for them.
const changeEnds = "executors that end"

// report tells the pipeline how far the change is, for its phase.
func (c *change) report(ctx workflow.Context, phase Phase) {
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		workflow.SignalExternalWorkflow(ctx, parent.ID, "", signalProgress, phase)
	}
}

func (c *change) start(ctx workflow.Context, slot placement.Slot) error {
	run := Running{Slot: slot, Workflow: executorID(slot.Executor, c.Number)}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:        run.Workflow,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     slot.Describe(),
		StaticDetails:     fmt.Sprintf("Started by generation %d of %s: %s", c.Generation, slot.Pipeline, c.Reason),
	})
	in := ExecutorInput{Task: executors.NewTask(c.deployment(), slot, c.Settings.Gateway), HeartbeatTimeout: c.Settings.HeartbeatTimeout}
	end := workflow.ExecuteChildWorkflow(ctx, TypeExecutor, in)
	if err := end.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return err
	}
	c.ends = append(c.ends, end)
	c.started = append(c.started, run)
	return nil
}

// retire lets the executors go that traffic has left. What goes wrong here
// does not undo the change; they are cancelled in any case.
func (c *change) retire(ctx workflow.Context) {
	if len(c.changes.Stop) == 0 {
		return
	}
	c.show(ctx, "releasing old executors")
	warning := release(ctx, c.Spec.Pipeline.Name, c.changes.Stop)
	if warning != nil {
		c.warning = reason(warning)
	}
	cancelExecutors(ctx, c.stopped())
}

// undo takes back what was started and reserved.
func (c *change) undo(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	c.show(ctx, "taking back what was started")
	var left []Running
	for i, r := range c.started {
		if i >= len(c.ends) || !c.ends[i].IsReady() {
			left = append(left, r)
		}
	}
	cancelExecutors(ctx, left)
	var fleet *activities.Fleet
	back := activities.Reservation{Pipeline: c.Spec.Pipeline.Name, Slots: slots(c.Running)}
	if err := workflow.ExecuteActivity(quick(ctx, "restore the reservation"), fleet.Reserve, back).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("reservation not restored", "error", err)
	}
}

func (c *change) deployment() placement.Deployment {
	d := placement.Deployment{Generation: c.Generation, Pipeline: c.Spec.Pipeline, Plan: c.plan, Slots: c.slots}
	if c.pool != nil {
		d.Pipeline.Rate = c.pool.Goodput
		return pool.Deploy(d, *c.Spec.Pool, *c.pool)
	}
	return d
}

func (c *change) compare() Change {
	rate := c.Spec.Pipeline.Rate
	if c.pool != nil {
		rate = c.pool.Goodput
	}
	return compare(c.Serving, c.plan, rate)
}

// running is what runs after the change, in the order of the slots.
func (c *change) running() []Running {
	owner := map[string]string{}
	for _, r := range append(append([]Running(nil), c.Running...), c.started...) {
		owner[r.Slot.Executor] = r.Workflow
	}
	all := make([]Running, 0, len(c.slots))
	for _, s := range c.slots {
		all = append(all, Running{Slot: s, Workflow: owner[s.Executor]})
	}
	return all
}

func (c *change) stopped() []Running {
	stop := map[string]bool{}
	for _, s := range c.changes.Stop {
		stop[s.Executor] = true
	}
	var all []Running
	for _, r := range c.Running {
		if stop[r.Slot.Executor] {
			all = append(all, r)
		}
	}
	return all
}

func (c *change) show(ctx workflow.Context, step string) {
	text := fmt.Sprintf("**%s**\n\nGeneration %d of `%s`, because: %s\n", step, c.Generation, c.Spec.Pipeline.Name, c.Reason)
	if len(c.plan.Modules) > 0 {
		text += fmt.Sprintf("\n%s\n\n```\n%s```\n", c.compare().Describe(), describePlan(&c.plan, c.pool))
	}
	if len(c.slots) > 0 {
		text += "\n```\n" + c.changes.Describe() + "```\n"
	}
	workflow.SetCurrentDetails(ctx, text)
}

func slots(running []Running) []placement.Slot {
	all := make([]placement.Slot, 0, len(running))
	for _, r := range running {
		all = append(all, r.Slot)
	}
	return all
}

// atGateway are the options of activities that the gateway runs.
func atGateway(ctx workflow.Context, summary string, limit time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.GatewayQueue,
		StartToCloseTimeout: limit,
		HeartbeatTimeout:    activities.DefaultHeartbeatTimeout,
		WaitForCancellation: true,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
		Summary:             summary,
	})
}

func release(ctx workflow.Context, pipeline string, gone []placement.Slot) error {
	var gateway *activities.GatewayActivities
	in := activities.ReleaseInput{Pipeline: pipeline}
	for _, s := range gone {
		in.Executors = append(in.Executors, s.Executor)
	}
	summary := fmt.Sprintf("let %d executors finish what they hold", len(gone))
	return workflow.ExecuteActivity(atGateway(ctx, summary, releaseTimeout), gateway.Release, in).Get(ctx, nil)
}

// cancelExecutors ends executors; one that has ended already is fine.
func cancelExecutors(ctx workflow.Context, running []Running) {
	for _, r := range running {
		if err := workflow.RequestCancelExternalWorkflow(ctx, r.Workflow, "").Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Debug("executor has ended already", "workflow", r.Workflow, "error", err)
		}
	}
}
