package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// function drives FunctionState.
type function struct {
	FunctionState
	stopped bool // nothing is served: the workflow may end
}

// Function owns one function until it is deleted. It is a pipeline's workflow
// without devices: plan, prepare, install. Handlers only change the state; this
// loop carries out what the state asks for, one thing at a time.
func Function(ctx workflow.Context, state FunctionState) error {
	f := &function{FunctionState: state}
	f.Handled = 0
	if f.Phase == "" {
		f.Phase = Waiting
	}
	if err := f.listen(ctx); err != nil {
		return err
	}
	f.hear(ctx)
	for {
		f.show(ctx)
		if err := f.rest(ctx); err != nil {
			return err
		}
		switch {
		case f.Stop != "":
			if f.halt(ctx); f.stopped {
				f.show(ctx)
				return workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
			}
		case f.Pending:
			f.change(ctx)
		case f.Reinstall:
			f.reinstall(ctx)
		case f.full(ctx):
			if err := f.continueAsNew(ctx); err != nil {
				return err
			}
		}
	}
}

// rest waits until there is something to do, or a failed change is due again.
func (f *function) rest(ctx workflow.Context) error {
	ready := func() bool { return f.busy() || f.full(ctx) }
	if f.RetryAt.IsZero() {
		return workflow.Await(ctx, ready)
	}
	options := workflow.AwaitOptions{
		Timeout:      max(f.RetryAt.Sub(workflow.Now(ctx)), 0),
		TimerOptions: workflow.TimerOptions{Summary: "until the failed change is tried again"},
	}
	done, err := workflow.AwaitWithOptions(ctx, options, ready)
	if err == nil && !done {
		f.RetryAt, f.Pending = time.Time{}, true
	}
	return err
}

func (f *function) busy() bool { return f.Stop != "" || f.Pending || f.Reinstall }

func (f *function) full(ctx workflow.Context) bool {
	n := f.Settings.ContinueAfter
	return workflow.GetInfo(ctx).GetContinueAsNewSuggested() || n > 0 && f.Handled >= n
}

func (f *function) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	f.hearRest(ctx)
	if f.busy() {
		return nil
	}
	return workflow.NewContinueAsNewError(ctx, TypeFunction, f.FunctionState)
}

// ask wants the function planned anew.
func (f *function) ask(cause string) {
	f.Pending, f.Cause, f.RetryAt = true, cause, time.Time{}
	f.Generation++
}

// change carries out the latest spec. What comes meanwhile sets Pending again.
func (f *function) change(ctx workflow.Context) {
	f.Pending, f.RetryAt = false, time.Time{}
	spec, generation, cause := f.Spec, f.Generation, f.Cause
	d, err := f.plan(ctx, spec, generation)
	if err == nil {
		f.enter(ctx, Reconciling)
		err = f.move(ctx, d)
	}
	f.decide(ctx, generation, cause, d, err)
	if err != nil {
		f.failed(ctx, generation, err)
		return
	}
	f.Serving, f.Failure, f.Failures, f.Reinstall = &d, nil, 0, false
	f.watch(workflow.Now(ctx))
	f.enter(ctx, Serving)
}

func (f *function) plan(ctx workflow.Context, spec FunctionSpec, generation int) (functions.Deployment, error) {
	f.enter(ctx, Planning)
	d := functions.Deployment{Generation: generation, Function: spec.Function, Provider: spec.Provider}
	var planning activities.Planning
	in := activities.FunctionInput{Problem: functions.Problem{Function: spec.Function, Provider: spec.Provider}, Options: spec.Options}
	summary := fmt.Sprintf("group %d applications at %s/s", len(spec.Function.Applications), rate(spec.Function.Rate()))
	err := workflow.ExecuteActivity(quick(ctx, summary), planning.PlanFunction, in).Get(ctx, &d.Plan)
	return d, err
}

// reachTime is how long a provider may take to describe what is deployed.
const reachTime = 20 * time.Second

// move prepares the new plan and switches to it; until then nothing changes for
// requests.
func (f *function) move(ctx workflow.Context, d functions.Deployment) error {
	var gateway *activities.FunctionActivities
	look := fmt.Sprintf("ask provider %s for %d functions", d.Provider.Name, len(d.Plan.Groups))
	if err := workflow.ExecuteActivity(atGateway(ctx, look, reachTime), gateway.PrepareFunction, d).Get(ctx, nil); err != nil {
		return err
	}
	return f.install(ctx, d, "move traffic to generation %d: "+f.compare(d).Describe())
}

func (f *function) install(ctx workflow.Context, d functions.Deployment, summary string) error {
	var gateway *activities.FunctionActivities
	options := atGateway(ctx, fmt.Sprintf(summary, d.Generation), time.Minute)
	return workflow.ExecuteActivity(options, gateway.InstallFunction, d).Get(ctx, nil)
}

// compare is the change from what serves.
func (f *function) compare(d functions.Deployment) Change {
	c := Change{ToRate: d.Function.Rate(), ToCost: d.Plan.CostPerHour(), First: f.Serving == nil}
	if f.Serving != nil {
		c.FromRate, c.FromCost = f.Serving.Function.Rate(), f.Serving.Plan.CostPerHour()
	}
	return c
}

// decide remembers what was tried and what came of it.
func (f *function) decide(ctx workflow.Context, generation int, cause string, d functions.Deployment, err error) {
	one := FunctionDecision{Generation: generation, At: workflow.Now(ctx), Reason: cause}
	if err != nil {
		one.Failure = reason(err)
	} else {
		one.Change, one.Groups = f.compare(d), len(d.Plan.Groups)
	}
	f.Decisions = append(f.Decisions, one)
	if n := len(f.Decisions) - keepDecisions; n > 0 {
		f.Decisions = f.Decisions[n:]
	}
}

// failed notes why a change was not carried out. What served goes on.
func (f *function) failed(ctx workflow.Context, generation int, err error) {
	now := workflow.Now(ctx)
	f.Failures++
	f.Failure = &Failure{Generation: generation, At: now, Reason: reason(err), Type: kind(err)}
	switch f.Failure.Type {
	case activities.TypeInfeasible, activities.TypeInvalid:
	default:
		if !f.Pending {
			wait := orDefault(f.Settings.RetryAfter, DefaultRetryAfter)
			f.RetryAt = now.Add(min(wait<<min(f.Failures-1, 4), 10*wait))
			f.Failure.RetryAt = f.RetryAt
		}
	}
	if f.Serving != nil {
		f.enter(ctx, Serving)
	} else {
		f.enter(ctx, Waiting)
	}
}

// reinstall tells a gateway that has started anew what serves. A gateway that
// refuses it, for want of a token say, is asked again as after a failed change.
func (f *function) reinstall(ctx workflow.Context) {
	f.Reinstall = false
	if f.Serving == nil {
		return
	}
	f.enter(ctx, Reconciling)
	if err := f.install(ctx, *f.Serving, "install generation %d again"); err != nil {
		f.Cause = "the gateway started anew and would not take the plan"
		f.failed(ctx, f.Generation, err)
		return
	}
	f.enter(ctx, Serving)
}

// halt stops serving. What goes wrong at the gateway does not keep it.
func (f *function) halt(ctx workflow.Context) {
	stop := f.Stop
	f.Stop, f.Pending, f.RetryAt, f.Reinstall = "", false, time.Time{}, false
	f.enter(ctx, Draining)
	if f.Serving != nil {
		var gateway *activities.FunctionActivities
		if err := workflow.ExecuteActivity(atGateway(ctx, "finish the requests under way", releaseTimeout), gateway.RemoveFunction, f.Name).Get(ctx, nil); err != nil {
			workflow.GetLogger(ctx).Warn("the gateway did not finish its requests", "error", err)
		}
	}
	f.Serving, f.Failure, f.Measures = nil, nil, nil
	if stop == StopDelete {
		f.stopped = true
		f.enter(ctx, Deleted)
		return
	}
	f.enter(ctx, Drained)
}

// CheckFunctionSpec finds what no plan could mend, so that it never enters
// history.
func CheckFunctionSpec(s FunctionSpec) error {
	if s.Function.Name == "" {
		return fmt.Errorf("workflows: the function has no name")
	}
	if s.Provider.URL == "" {
		return fmt.Errorf("workflows: provider %q has no url, so function %q can be planned and not served; add one, such as url = \"http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}\"", s.Provider.Name, s.Function.Name)
	}
	if err := s.Options.Check(); err != nil {
		return err
	}
	return functions.Problem{Function: s.Function, Provider: s.Provider}.Check()
}
