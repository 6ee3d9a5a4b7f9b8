package workflows

import (
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// keepDecisions bounds the decisions that a pipeline remembers.
const keepDecisions = 20

// pipeline drives State.
type pipeline struct {
	State
	stopped bool // nothing runs: the workflow may end
}

// Pipeline owns one pipeline until it is deleted. Handlers only change the
// state; this loop carries out what the state asks for, one thing at a time.
func Pipeline(ctx workflow.Context, state State) error {
	p := &pipeline{State: state}
	p.init()
	if err := p.listen(ctx); err != nil {
		return err
	}
	p.hear(ctx)
	for {
		p.show(ctx)
		if err := p.rest(ctx); err != nil {
			return err
		}
		switch {
		case p.Stop != "":
			if p.halt(ctx); p.stopped {
				p.show(ctx)
				return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
			}
		case p.mourn(ctx):
		case p.Pending:
			p.change(ctx)
		case p.Reinstall:
			p.reinstall(ctx)
		case p.full(ctx):
			if err := p.continueAsNew(ctx); err != nil {
				return err
			}
		}
	}
}

func (p *pipeline) init() {
	if p.Points == nil {
		p.Points = map[string][]pipelines.Point{}
	}
	if p.Ended == nil {
		p.Ended = map[string]string{}
	}
	if p.Phase == "" {
		p.Phase = Waiting
	}
	p.Handled = 0
}

// rest waits until there is something to do, or a failed change is due again.
func (p *pipeline) rest(ctx workflow.Context) error {
	ready := func() bool { return p.busy() || p.full(ctx) }
	if p.RetryAt.IsZero() {
		return workflow.Await(ctx, ready)
	}
	options := workflow.AwaitOptions{
		Timeout:      max(p.RetryAt.Sub(workflow.Now(ctx)), 0),
		TimerOptions: workflow.TimerOptions{Summary: "until the failed change is tried again"},
	}
	done, err := workflow.AwaitWithOptions(ctx, options, ready)
	if err == nil && !done {
		p.RetryAt, p.Pending = time.Time{}, true
	}
	return err
}

func (p *pipeline) busy() bool {
	return p.Stop != "" || p.Pending || p.Reinstall || len(p.Lost)+len(p.Ended) > 0
}

func (p *pipeline) full(ctx workflow.Context) bool {
	n := p.Settings.ContinueAfter
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || n > 0 && p.Handled >= n
}

// continueAsNew starts a fresh history with the same state, unless the last
// messages have brought something to do.
func (p *pipeline) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	p.hearRest(ctx)
	if p.busy() {
		return nil
	}
	return workflow.NewContinueAsNewError(ctx, TypePipeline, p.State)
}

// mourn takes executors out of what runs that have ended, or whose host has
// gone, and asks for a new plan. It is false when nothing that runs is
// concerned.
func (p *pipeline) mourn(ctx workflow.Context) bool {
	if p.bereaved() {
		p.gather(ctx)
	}
	lost := map[string]bool{}
	for _, host := range p.Lost {
		lost[host] = true
	}
	var left, gone []Running
	var cause string // the first, when there are several
	for _, r := range p.Running {
		why, ended := p.Ended[r.Workflow]
		switch {
		case ended:
			cause = orDefault(cause, "executor "+r.Slot.Executor+" ended: "+why)
		case lost[r.Slot.Host]:
			cause = orDefault(cause, "host "+r.Slot.Host+" was lost")
			gone = append(gone, r)
		default:
			left = append(left, r)
		}
	}
	p.Lost, p.Ended = nil, map[string]string{}
	if len(left) == len(p.Running) {
		return false
	}
	p.Running = left
	p.ask(cause)
	cancelExecutors(ctx, gone)
	return true
}

// gatherTime is how long a pipeline listens for further losses after the first:
// when a host or a whole system comes back after a while, its executors are
// reported one by one, and a plan that counts on one that is about to be
// reported would wait for it in vain.
const gatherTime = 2 * time.Second

func (p *pipeline) gather(ctx workflow.Context) {
	timer := workflow.NewTimerWithOptions(ctx, gatherTime, workflow.TimerOptions{Summary: "hear what else has ended"})
	_ = timer.Get(ctx, nil) // a cancelled wait is a short one
}

// bereaved says whether something that runs has ended or lost its host.
func (p *pipeline) bereaved() bool {
	return slices.ContainsFunc(p.Running, func(r Running) bool {
		_, ended := p.Ended[r.Workflow]
		return ended || slices.Contains(p.Lost, r.Slot.Host)
	})
}

// ask wants the pipeline planned anew although its spec is the same.
func (p *pipeline) ask(cause string) {
	p.Pending, p.Cause, p.RetryAt = true, cause, time.Time{}
	p.Generation++
}

// change carries out the latest spec. What comes meanwhile sets Pending again.
func (p *pipeline) change(ctx workflow.Context) {
	p.Pending, p.Joined, p.RetryAt = false, false, time.Time{}
	generation, cause := p.Generation, p.Cause // they may be replaced meanwhile
	reply, err := p.reschedule(ctx, p.Spec, generation, cause)
	p.decide(ctx, generation, cause, reply, err)
	if err == nil {
		p.serve(ctx, reply)
		return
	}
	p.failed(ctx, generation, err)
	if p.Serving != nil && len(p.Running) < len(p.Serving.Slots) && !p.busy() {
		p.repair(ctx)
	}
}

// repair replaces executors that have gone, for the spec that serves, when the
// latest spec cannot be carried out.
func (p *pipeline) repair(ctx workflow.Context) {
	const cause = "executors of the plan that serves are missing"
	spec, generation, failure, retry, profile := p.Spec, p.Generation, p.Failure, p.RetryAt, p.Profile
	served := p.Served
	spec, p.Profile, p.Served = p.restored(spec), false, nil // it has its profiles
	reply, err := p.reschedule(ctx, spec, generation, cause)
	p.Served = served
	p.decide(ctx, generation, cause, reply, err)
	if err == nil {
		p.serve(ctx, reply)
	} else {
		p.enter(ctx, Serving)
	}
	p.Failure, p.RetryAt, p.Profile = failure, retry, profile
}

// decide remembers what was tried and what came of it.
func (p *pipeline) decide(ctx workflow.Context, generation int, cause string, reply RescheduleReply, err error) {
	d := Decision{Generation: generation, At: workflow.Now(ctx), Reason: cause}
	if err != nil {
		d.Failure = reason(err)
	} else {
		d.Change, d.Start, d.Stop, d.Keep = reply.Change, reply.Start, reply.Stop, len(reply.Running)-reply.Start
	}
	p.Decisions = append(p.Decisions, d)
	if n := len(p.Decisions) - keepDecisions; n > 0 {
		p.Decisions = p.Decisions[n:]
	}
}

func (p *pipeline) reschedule(ctx workflow.Context, spec Spec, generation int, cause string) (reply RescheduleReply, err error) {
	p.Attempts++
	if p.Profile {
		p.enter(ctx, Profiling)
		if err := p.measure(ctx, spec); err != nil {
			return reply, err
		}
	}
	p.enter(ctx, Planning)
	spec.Pipeline = p.profiled(spec.Pipeline)
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:        rescheduleID(p.Name, p.Attempts),
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:     p.summary(spec, cause),
		StaticDetails:     p.before(),
	})
	request := RescheduleRequest{
		Spec: spec, Generation: generation, Number: p.Attempts, Reason: cause,
		Serving: p.Serving, Running: p.Running, Settings: p.Settings,
	}
	err = workflow.ExecuteChildWorkflow(ctx, TypeReschedule, request).Get(ctx, &reply)
	return reply, err
}

func (p *pipeline) measure(ctx workflow.Context, spec Spec) error {
	if len(lacking(p.profiled(spec.Pipeline))) == 0 {
		p.Profile = false
		return nil
	}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:    profileID(p.Name, p.Attempts),
		StaticSummary: "profile the modules of " + p.Name,
	})
	var reply ProfileReply
	if err := workflow.ExecuteChildWorkflow(ctx, TypeProfile, ProfileRequest{Spec: spec, Again: p.Again}).Get(ctx, &reply); err != nil {
		return err
	}
	for _, name := range workflow.DeterministicKeys(reply.Points) {
		p.Points[name] = reply.Points[name]
	}
	p.Profile, p.Again = false, false
	return nil
}

// profiled is the pipeline with the points measured while it serves, or, for
// modules that declare none, before.
func (p *pipeline) profiled(spec pipelines.Pipeline) pipelines.Pipeline {
	modules := make([]pipelines.Module, len(spec.Modules))
	copy(modules, spec.Modules)
	for i := range modules {
		name := modules[i].Name
		if served := p.Served[name]; len(served) > 0 {
			modules[i].Profile.Points = served
		} else if len(modules[i].Profile.Points) == 0 {
			modules[i].Profile.Points = p.Points[name]
		}
	}
	spec.Modules = modules
	return spec
}

func (p *pipeline) serve(ctx workflow.Context, reply RescheduleReply) {
	p.Serving, p.Running, p.Pool = &reply.Deployment, reply.Running, reply.Pool
	p.Failure, p.Failures, p.Reinstall = nil, 0, false
	if reply.Warning != "" {
		workflow.GetLogger(ctx).Warn("old executors were cancelled before they had finished", "reason", reply.Warning)
	}
	p.Drift.Options = p.Settings.Drift
	p.Drift.Reset(reply.Deployment.Pipeline.Rate, workflow.Now(ctx))
	p.Pace.Options = p.Settings.Pace
	p.Pace.Reset(workflow.Now(ctx))
	if q := reply.Deployment.Pool; q != nil {
		p.Mix.Options = p.Settings.Mix
		p.Mix.Reset(q.Sizes, workflow.Now(ctx))
	}
	p.enter(ctx, Serving)
}

// failed notes why a change was not carried out. What served goes on.
func (p *pipeline) failed(ctx workflow.Context, generation int, err error) {
	now := workflow.Now(ctx)
	p.Failures++
	p.Failure = &Failure{Generation: generation, At: now, Reason: reason(err), Type: kind(err)}
	switch p.Failure.Type {
	case activities.TypeInfeasible, activities.TypeInvalid:
		p.Pending = p.Pending || p.Joined // other hardware may mend it
	default:
		if p.Joined {
			p.Pending = true // it has come since the change looked for one
		}
		if !p.Pending {
			wait := orDefault(p.Settings.RetryAfter, DefaultRetryAfter)
			p.RetryAt = now.Add(min(wait<<min(p.Failures-1, 4), 10*wait))
			p.Failure.RetryAt = p.RetryAt
		}
	}
	if p.Serving != nil {
		p.enter(ctx, Serving)
	} else {
		p.enter(ctx, Waiting)
	}
}

// reinstall tells a gateway that has started anew what serves. It waits for
// the executors to come back, unless one turns out to be gone.
func (p *pipeline) reinstall(ctx workflow.Context) {
	p.Reinstall = false
	if p.Serving == nil {
		return
	}
	p.enter(ctx, Reconciling)
	err := p.install(ctx, *p.Serving)
	switch {
	case err == nil:
		p.enter(ctx, Serving)
	case p.busy():
		p.Reinstall = true // after what is more urgent
	default:
		p.ask("the gateway started anew, and executors were missing: " + reason(err))
	}
}

func (p *pipeline) install(ctx workflow.Context, d placement.Deployment) error {
	var gateway *activities.GatewayActivities
	patience := orDefault(p.Settings.PrepareTimeout, DefaultPrepareTimeout)
	wait, give := workflow.WithCancel(atGateway(ctx, "wait until the executors have come back", patience))
	defer give()
	ready := workflow.ExecuteActivity(wait, gateway.Prepare, d)
	if err := workflow.Await(ctx, func() bool { return ready.IsReady() || p.busy() }); err != nil {
		return err
	}
	if !ready.IsReady() {
		give()
	}
	if err := ready.Get(ctx, nil); err != nil {
		return err
	}
	again := fmt.Sprintf("install generation %d again", d.Generation)
	return workflow.ExecuteActivity(atGateway(ctx, again, time.Minute), gateway.Install, d).Get(ctx, nil)
}

// halt stops serving, and everything that runs. What goes wrong at the gateway
// does not keep it: the executors are cancelled either way.
func (p *pipeline) halt(ctx workflow.Context) {
	stop := p.Stop
	p.Stop, p.Pending, p.RetryAt, p.Reinstall = "", false, time.Time{}, false
	p.enter(ctx, Draining)
	var gateway *activities.GatewayActivities
	var fleet *activities.Fleet
	log := workflow.GetLogger(ctx)
	if p.Serving != nil {
		if err := workflow.ExecuteActivity(atGateway(ctx, "finish the requests under way", releaseTimeout), gateway.Remove, p.Name).Get(ctx, nil); err != nil {
			log.Warn("the gateway did not finish its requests", "error", err)
		}
	}
	if len(p.Running) > 0 {
		if err := release(ctx, p.Name, slots(p.Running)); err != nil {
			log.Warn("executors did not finish in time", "error", err)
		}
	}
	cancelExecutors(ctx, p.Running)
	back := activities.Reservation{Pipeline: p.Name, Forget: stop == StopDelete}
	if err := workflow.ExecuteActivity(quick(ctx, "give the devices back"), fleet.Reserve, back).Get(ctx, nil); err != nil {
		log.Error("devices not given back", "error", err)
	}
	p.Serving, p.Running, p.Failure, p.Pool = nil, nil, nil, nil
	if stop == StopDelete {
		p.stopped = true
		p.enter(ctx, Deleted)
		return
	}
	p.enter(ctx, Drained)
}
