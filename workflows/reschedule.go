package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// RescheduleRequest is the input of the reschedule workflow.
type RescheduleRequest struct {
	Spec        scheduler.Spec   // profiles included
	Beside      []scheduler.Spec // to be planned together with it
	Generation  int
	Life        int    `json:",omitempty"` // of the service
	Number      int    // of this attempt, over the service's life
	Reason      string // why a new plan is wanted
	Serving     *Deployed
	Running     []Running
	Settings    Settings
	Transfer    time.Duration   `json:",omitempty"`      // to count on for the way to an executor and back
	Given       *scheduler.Plan `json:",omitempty"`      // to carry out; nil to look for the best
	ShortSearch bool            `json:"Hurry,omitempty"` // what serves does not suit its queries: the best plan that is found soon
	Owner       string          `json:",omitempty"`      // ID of the workflow that executors notify of their end; empty: the spec's
	Apart       bool            `json:",omitempty"`      // on devices that nothing else uses
	Replaces    string          `json:",omitempty"`      // ID under which a trial holds devices that this change may use
}

// RescheduleReply is its result: what serves now.
type RescheduleReply struct {
	Deployed    Deployed
	Running     []Running
	Change      Change
	Start, Stop int // executors
	Warning     string
	Gateways    []activities.Member `json:",omitempty"` // that there were when it was made
	Behind      []activities.Member `json:",omitempty"` // those of them that traffic was not moved at
}

const (
	// providerTimeout is how long a provider may take to describe what is
	// deployed.
	providerTimeout = 20 * time.Second

	// InstallTimeout bounds how long a gateway may take to move traffic.
	InstallTimeout = time.Minute

	// ReleaseTimeout bounds how long old executors may take to finish what they
	// hold; they are cancelled afterwards either way.
	ReleaseTimeout = 2 * time.Minute

	// placeAttempts bounds how often an older change redoes a placement because the fleet
	// changed between looking and reserving.
	placeAttempts = 8
)

// change is one reschedule under way.
type change struct {
	RescheduleRequest
	id         string // of the service's workflow
	view       activities.FleetView
	next       Deployed
	deployment placement.Deployment // of next
	changes    placement.Changes
	ends       []workflow.Future // of those that were started, as long as they run
	started    []Running
	warning    string
	behind     []activities.Member
	wants      []activities.Want // hosts that are requested beside what there is

	told     workflow.ReceiveChannel // of the gateways that there are since some have come or gone
	gateways []activities.Member     // the latest that were received; nil before
}

// Reschedule leads a service from the plan that serves to the best plan for the
// spec. It makes before it breaks: until the new executors are ready, nothing
// changes for requests, and when it fails, what it started is taken back.
func Reschedule(ctx workflow.Context, in RescheduleRequest) (reply RescheduleReply, err error) {
	own := ctx
	defer func() { err = activities.Failed(err, own.Err() != nil) }()
	c := &change{RescheduleRequest: in, id: SpecID(in.Spec)}
	c.told = workflow.GetSignalChannel(ctx, SignalGateways)
	c.next = Deployed{Generation: in.Generation, Life: in.Life, Spec: in.Spec}
	c.show(ctx, "choosing a plan")
	if err := c.choosePlan(ctx); err != nil {
		return RescheduleReply{}, c.asks().Ask(ctx, err)
	}
	c.wants = c.asks().Rest(ctx, c.next.Plan)
	if err := c.place(ctx); err != nil {
		return RescheduleReply{}, c.asks().Ask(ctx, err)
	}
	if err := c.carryOut(ctx); err != nil {
		c.undo(ctx)
		return RescheduleReply{}, err
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx) // traffic has moved: there is no way back
	c.releaseOld(ctx)
	c.show(ctx, "done")
	return RescheduleReply{
		Deployed: c.next, Running: c.running(), Change: compareDeployed(c.Serving, &c.next),
		Start: len(c.changes.Start), Stop: len(c.changes.Stop), Warning: c.warning,
		Gateways: c.view.Gateways(), Behind: c.behind,
	}, nil
}

// choosePlan looks which devices there are and plans for them.
func (c *change) choosePlan(ctx workflow.Context) error {
	if err := c.viewFleet(ctx); err != nil {
		return err
	}
	if c.Given != nil {
		c.next.Plan, c.next.Spec = *c.Given, c.Spec.As(*c.Given)
		c.deployment = c.next.Deployment()
		return nil
	}
	ctx = planOptions(ctx, kindOf(c.Spec.Kind()).planSummary(c.Spec))
	var planning activities.Planning
	together := c.own()
	for _, other := range c.Beside {
		together = append(together, SpecID(other))
	}
	in := activities.PlanInput{Spec: c.Spec, Beside: c.Beside, Fleet: c.view.For(together...)}
	in.Fleet.Transfer, in.Relieve, in.ShortSearch = c.Transfer, c.Serving != nil, c.ShortSearch
	if c.Spec.Kind() == scheduler.KindCluster {
		in.Fleet.Offers = c.asks().Offers()
	}
	if err := workflow.ExecuteActivity(ctx, planning.Plan, in).Get(ctx, &c.next.Plan); err != nil {
		if c.Apart {
			return temporal.NewNonRetryableApplicationError("to try it first on devices that nothing else uses: "+activities.Reason(err), activities.ReasonType(err), nil)
		}
		return err
	}
	c.next.Spec = c.Spec.As(c.next.Plan)
	c.deployment = c.next.Deployment()
	return nil
}

// asks is the hostRequest of the change.
func (c *change) asks() *hostRequest {
	return &hostRequest{
		ID: c.id, Own: c.own(), Spec: c.Spec, View: c.view, Given: c.Given, Transfer: c.Transfer,
		MaxShare: c.Settings.MaxShare, Runs: len(c.Running) > 0, Apart: c.Apart,
	}
}

// own are the IDs under which the service holds devices.
func (c *change) own() []string {
	if c.Replaces != "" {
		return []string{c.id, c.Replaces}
	}
	return []string{c.id}
}

func (c *change) viewFleet(ctx workflow.Context) error {
	var fleet *activities.Fleet
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "look which devices exist and are free"), fleet.Watch, c.id).Get(ctx, &c.view); err != nil {
		return err
	}
	if c.Apart {
		c.view = c.view.Unused()
	}
	return nil
}

// carryOut starts what is missing and moves traffic once it is ready.
func (c *change) carryOut(ctx workflow.Context) error {
	c.show(ctx, "starting executors")
	c.reportPhase(ctx, Reconciling)
	if err := c.start(ctx); err != nil {
		return err
	}
	if err := c.functions().Create(ctx); err != nil {
		return err
	}
	patience := cmp.Or(c.Settings.PrepareTimeout, DefaultPrepareTimeout)
	summary := fmt.Sprintf("wait until %d executors are ready", len(c.next.Slots))
	if f := c.deployment.Function; f != nil {
		patience, summary = providerTimeout, fmt.Sprintf("check %d functions at provider %s", len(f.Plan.Groups), f.Provider.Name)
	}
	var gateway *activities.GatewayActivities
	all := c.queues(ctx)
	wait, cancel := workflow.WithCancel(ctx)
	defer cancel()
	if err := c.ready(ctx, beginParts(wait, all, summary, patience, gateway.Prepare, c.deployment)); err != nil {
		return err
	}
	c.show(ctx, "moving traffic")
	ctx, _ = workflow.NewDisconnectedContext(ctx) // of gateways, some would have moved it and others not
	summary = fmt.Sprintf("move traffic to generation %d: %s", c.Generation, compareDeployed(c.Serving, &c.next).Describe())
	var err error
	c.behind, err = failedParts(ctx, beginParts(ctx, all, summary, InstallTimeout, gateway.Install, c.deployment))
	return err
}

// queues are those of the gateways that there were when the change looked.
func (c *change) queues(ctx workflow.Context) []gatewayQueue {
	return gatewayQueues(ctx, c.view.Gateways(), func(g activities.Member) bool {
		c.hear()
		return c.gateways == nil || slices.Contains(c.gateways, g)
	})
}

// hear receives the gateways that the service has sent.
func (c *change) hear() {
	for now := []activities.Member(nil); c.told.ReceiveAsync(&now); now = nil {
		c.gateways = append([]activities.Member{}, now...)
	}
}

// ready waits until the gateways have all executors. An executor that ends before fails the
// wait with its reason.
func (c *change) ready(ctx workflow.Context, prepared []gatewayPart) error {
	for slices.ContainsFunc(prepared, func(p gatewayPart) bool { return !p.Ready() }) {
		s := workflow.NewSelector(ctx)
		s.AddReceive(c.told, func(workflow.ReceiveChannel, bool) { c.hear() })
		var err error
		for _, p := range prepared {
			if !p.Done.IsReady() {
				s.AddFuture(p.Done, func(workflow.Future) {})
			}
		}
		for _, end := range c.ends {
			s.AddFuture(end, func(f workflow.Future) {
				if err = f.Get(ctx, nil); err == nil {
					err = errors.New("workflows: an executor ended before traffic was moved to it; look at its workflow for why")
				}
			})
		}
		if s.Select(ctx); err != nil {
			return err
		}
	}
	return awaitParts(ctx, prepared)
}

// reportPhase reports the phase of the change to the service.
func (c *change) reportPhase(ctx workflow.Context, phase Phase) {
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		workflow.SignalExternalWorkflow(ctx, parent.ID, "", SignalProgress, phase)
	}
}

// patchTogether marks workflows that start many executors at once, and from its second
// version on no more than fit into one message; older ones wait for each before the next.
const patchTogether = "executors together"

// Bounds of one message to the server: startTogether workflows at most, with inputs of
// startBytes at most beside the first. The server takes 4 MiB.
const (
	startTogether = 50
	startBytes    = 1 << 20
)

// start starts the executors that are missing.
func (c *change) start(ctx workflow.Context) error {
	many, bytes := 1, math.MaxInt
	if len(c.changes.Start) > 1 {
		switch workflow.GetVersion(ctx, patchTogether, workflow.DefaultVersion, 2) {
		case workflow.DefaultVersion:
		case 1:
			many = startTogether
		default:
			many, bytes = startTogether, startBytes
		}
	}
	size := func(slot placement.Slot) int {
		if bytes == math.MaxInt {
			return 0
		}
		text, err := json.Marshal(c.input(slot))
		if err != nil {
			return bytes // to be started by itself, which reports what is wrong
		}
		return len(text)
	}
	for left := c.changes.Start; len(left) > 0; {
		var slots []placement.Slot
		slots, left = firstOf(left, many, bytes, size)
		begun := make([]workflow.ChildWorkflowFuture, len(slots))
		for i, slot := range slots {
			begun[i] = c.begin(ctx, slot)
		}
		var failed error
		for i, slot := range slots {
			if err := begun[i].GetChildWorkflowExecution().Get(ctx, nil); err != nil {
				failed = cmp.Or(failed, err)
				continue
			}
			c.ends = append(c.ends, begun[i])
			c.started = append(c.started, Running{Slot: slot, Workflow: executorID(slot.Executor, c.Number)})
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// firstOf divides a list after so many, or before the one with which their sizes together
// exceed a number of bytes. The first goes whatever its size.
func firstOf[T any](list []T, many, bytes int, size func(T) int) (first, rest []T) {
	n, sum := 0, 0
	for n < min(many, len(list)) {
		if sum += size(list[n]); n > 0 && sum > bytes {
			break
		}
		n++
	}
	return list[:n], list[n:]
}

func (c *change) begin(ctx workflow.Context, slot placement.Slot) workflow.ChildWorkflowFuture {
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:        executorID(slot.Executor, c.Number),
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:     slot.Describe(),
		StaticDetails:     fmt.Sprintf("Started by generation %d of %s: %s", c.Generation, slot.Pipeline, c.Reason),
	})
	return workflow.ExecuteChildWorkflow(ctx, TypeExecutor, c.input(slot))
}

// input is what the workflow of an executor is given.
func (c *change) input(slot placement.Slot) ExecutorInput {
	return ExecutorInput{
		Service: cmp.Or(c.Owner, c.id), Task: executors.NewTask(c.deployment, slot, c.Settings.Gateway),
		HeartbeatTimeout: cmp.Or(c.Settings.HeartbeatTimeout, activities.HeartbeatTimeout(len(c.deployment.Slots))),
	}
}

// releaseOld lets the executors go that traffic has left. What goes wrong here
// does not undo the change; they are cancelled in any case.
func (c *change) releaseOld(ctx workflow.Context) {
	if f := c.functions(); f.Managed() { // deleted after the last request that may call them
		c.show(ctx, "deleting functions that are not called any more")
		err := releaseExecutors(ctx, c.queues(ctx), c.Spec.Name(), nil)
		if err == nil {
			err = f.Delete(ctx)
		}
		if err != nil {
			c.warning = activities.Reason(err)
		}
		return
	}
	if len(c.changes.Stop) == 0 {
		return
	}
	c.show(ctx, "releasing old executors")
	warning := releaseExecutors(ctx, c.queues(ctx), c.Spec.Name(), c.changes.Stop)
	if warning != nil {
		c.warning = activities.Reason(warning)
	}
	cancelExecutors(ctx, c.stopped())
}

// functions are those that are to be created and deleted.
func (c *change) functions() functionChange {
	f := functionChange{Next: c.deployment.Function}
	if c.Serving != nil {
		f.Before = c.Serving.Deployment().Function
	}
	return f
}

// undo takes back what was started and reserved.
func (c *change) undo(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	c.show(ctx, "taking back what was started")
	var left []Running
	for i, r := range c.started {
		if !c.ends[i].IsReady() {
			left = append(left, r)
		}
	}
	cancelExecutors(ctx, left)
	if err := c.functions().Restore(ctx); err != nil {
		workflow.GetLogger(ctx).Error("functions of a change that failed are left", "error", err)
	}
	if len(c.next.Slots) == 0 {
		return // nothing was reserved
	}
	var fleet *activities.Fleet
	before := activities.Reservation{Service: c.id, Slots: slotsOf(c.Running)}
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "restore the reservation"), fleet.Reserve, before).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Error("reservation not restored", "error", err)
	}
}

// running is what runs after the change, in the order of the slots.
func (c *change) running() []Running {
	owner := map[string]string{}
	for _, r := range append(append([]Running(nil), c.Running...), c.started...) {
		owner[r.Slot.Executor] = r.Workflow
	}
	all := make([]Running, 0, len(c.next.Slots))
	for _, s := range c.next.Slots {
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
	text := fmt.Sprintf("**%s**\n\nGeneration %d of `%s`, because: %s\n", step, c.Generation, c.id, c.Reason)
	if c.next.Plan != (scheduler.Plan{}) {
		text += fmt.Sprintf("\n%s\n\n```\n%s```\n", compareDeployed(c.Serving, &c.next).Describe(), c.next.Plan.Describe())
	}
	if len(c.next.Slots) > 0 {
		text += "\n```\n" + c.changes.Describe() + "```\n"
	}
	workflow.SetCurrentDetails(ctx, text)
}

// slotsOf are those of executors.
func slotsOf(running []Running) []placement.Slot {
	all := make([]placement.Slot, 0, len(running))
	for _, r := range running {
		all = append(all, r.Slot)
	}
	return all
}

// releaseExecutors lets executors go at all gateways, the last of which has switched.
func releaseExecutors(ctx workflow.Context, all []gatewayQueue, service string, leaving []placement.Slot) error {
	var gateway *activities.GatewayActivities
	in := activities.ReleaseInput{Service: service}
	for _, s := range leaving {
		in.Executors = append(in.Executors, s.Executor)
	}
	summary := fmt.Sprintf("let %d executors finish what they hold", len(leaving))
	return awaitParts(ctx, beginParts(ctx, all, summary, ReleaseTimeout, gateway.Release, in))
}

// patchCancelTogether marks workflows that cancel many executors at once; older ones wait
// for each before the next.
const patchCancelTogether = "cancel together"

// cancelExecutors ends executors; one that has ended already is fine.
func cancelExecutors(ctx workflow.Context, running []Running) {
	many := 1
	if len(running) > 1 && workflow.GetVersion(ctx, patchCancelTogether, workflow.DefaultVersion, 1) != workflow.DefaultVersion {
		many = startTogether
	}
	for some := range slices.Chunk(running, many) {
		ends := make([]workflow.Future, len(some))
		for i, r := range some {
			ends[i] = workflow.RequestCancelExternalWorkflow(ctx, r.Workflow, "")
		}
		for i, r := range some {
			if err := ends[i].Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Debug("executor has ended already", "workflow", r.Workflow, "error", err)
			}
		}
	}
}
