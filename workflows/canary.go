package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
)

// A change of a pipeline with an update block is tried first: another reschedule deploys
// the new generation under a name of its own (rollout.Part), gateways give it its share,
// and package rollout decides from what they see. Whatever comes of it, what was deployed
// for the trial goes; a promoted generation is then carried out as any change is.

// trialStep bounds, as a factor, by how much what is tried may be taken to be slower than
// profiled; nothing serves by that yet, so it may be far.
const trialStep = 16

// reverted reports that a change was taken back after it was tried; trying it again by
// itself would not help.
func reverted(reason string) error {
	return temporal.NewNonRetryableApplicationError("taken back: "+reason, activities.TypeReverted, nil)
}

// errInterrupted means that a trial ended because of another request.
var errInterrupted = temporal.NewNonRetryableApplicationError("the trial ended before its time, because of another request", activities.TypeReverted, nil)

// try runs the trial of the latest spec where its update block requires one. An error is
// the reason not to carry it out.
func (s *service) try(ctx workflow.Context, generation int, cause string) error {
	if !s.Try || s.Serving == nil || s.Spec.Pipeline == nil || !s.Spec.Pipeline.Update.Tried() {
		return nil
	}
	update := s.Spec.Pipeline.Update
	if len(s.Running) < len(s.Serving.Slots) {
		return reverted("executors of the plan that serves are missing; apply it again when they are there")
	}
	if s.Profile {
		s.setPhase(ctx, Profiling)
		if err := s.profile(ctx, s.Spec); err != nil {
			return err
		}
	}
	spec := s.profiled(s.Spec)
	var cost rollout.Cost
	if update.Revert.Cost > 0 {
		var err error
		if cost, err = s.costs(ctx, spec); err != nil {
			return err
		}
	}
	if d := rollout.Decide(update, 0, rollout.Seen{Generation: generation}, cost); d.Verdict == rollout.Revert {
		return reverted(d.Reason)
	}
	if err := s.beginTrial(ctx, spec, generation, cause); err != nil {
		return err
	}
	switch d := s.hold(ctx, cost); d.Verdict {
	case rollout.Promote:
		s.Try = s.Generation != generation // which came meanwhile
		return s.planWithTried(ctx, spec)
	case rollout.Revert:
		return reverted(d.Reason)
	}
	return errInterrupted
}

// beginTrial deploys the new generation for its share, and has it given that.
func (s *service) beginTrial(ctx workflow.Context, spec scheduler.Spec, generation int, cause string) error {
	update := spec.Pipeline.Update
	part := rollout.Part(*spec.Pipeline)
	spec.Pipeline = &part
	s.Attempts++
	s.setPhase(ctx, Planning)
	summary := fmt.Sprintf("try generation %d of %s: it %s for %v", generation, s.Name, sharesText(update), cmp.Or(update.Hold, pipelines.DefaultHold))
	var reply RescheduleReply
	s.under = rescheduleID(part.Name, s.Attempts)
	defer func() { s.under = "" }()
	err := workflow.ExecuteChildWorkflow(rescheduleOptions(ctx, part.Name, s.Attempts, summary, s.replaced()), TypeReschedule, RescheduleRequest{
		Spec: spec, Generation: generation, Life: s.Life, Number: s.Attempts, Reason: cause, Settings: s.Settings, Transfer: s.Transfer,
		Owner: ServiceID(s.Kind, s.Name), Apart: true,
	}).Get(ctx, &reply)
	if err != nil {
		return err
	}
	s.Trial = &Trial{Generation: generation, Since: workflow.Now(ctx), Update: update, By: map[string]rollout.Seen{}, Slower: map[string]autoscale.PaceAdvice{},
		Pace: autoscale.NewPace(autoscale.PaceOptions{Step: trialStep}), Deployed: reply.Deployed, Running: reply.Running}
	s.setPhase(ctx, Trying)
	return s.giveShare(ctx, s.Gateways, update)
}

// giveShare sets the trial's share of requests at gateways.
func (s *service) giveShare(ctx workflow.Context, some []activities.Member, u pipelines.Update) error {
	var gateway *activities.GatewayActivities
	summary := fmt.Sprintf("generation %d %s", s.Trial.Generation, sharesText(u))
	if !u.Tried() {
		summary = fmt.Sprintf("generation %d gets no more requests of the trial", s.Trial.Generation)
	}
	return awaitParts(ctx, beginParts(ctx, gatewayQueues(ctx, some, s.present), summary, InstallTimeout, gateway.Try, activities.TryInput{Service: s.Name, Update: u}))
}

// planWithTried has a generation that is given all requests planned with what its modules
// took in the trial, where that is longer than profiled. A share of the requests leaves
// them time that all do not: the error is that no plan bears all, or only at a higher cost.
func (s *service) planWithTried(ctx workflow.Context, spec scheduler.Spec) error {
	points := map[string][]pipelines.Point{}
	var slower []string
	for _, v := range s.Trial.Pace.Void() {
		if a, known := s.Trial.Slower[v.Module]; known {
			points[v.Module] = autoscale.AtLeast(a.Points, moduleOf(spec, v.Module).Profile.Points)
			slower = append(slower, v.Describe())
		}
	}
	if len(points) == 0 {
		return nil
	}
	why := strings.Join(slower, ", ") + "; planned with that for all requests: "
	cost, err := s.costs(ctx, spec.WithProfiles(points))
	if err != nil {
		return reverted(why + activities.Reason(err))
	}
	if d := rollout.Decide(s.Trial.Update, 0, rollout.Seen{}, cost); d.Verdict == rollout.Revert {
		return reverted(why + d.Reason)
	}
	for _, name := range workflow.DeterministicKeys(points) {
		a := s.Trial.Slower[name]
		a.Points = points[name]
		s.planWith(ctx, a)
	}
	return nil
}

// costs are what a request costs by the plan that serves and by that of the spec for all
// requests, which is made for that.
func (s *service) costs(ctx workflow.Context, spec scheduler.Spec) (c rollout.Cost, err error) {
	var fleet *activities.Fleet
	var planning activities.Planning
	var view activities.FleetView
	var next scheduler.Plan
	id := ServiceID(s.Kind, s.Name)
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "look which devices exist and are free"), fleet.Watch, id).Get(ctx, &view); err != nil {
		return c, err
	}
	in := activities.PlanInput{Spec: spec, Fleet: view.For(id)}
	in.Fleet.Transfer = s.Transfer
	if err := workflow.ExecuteActivity(planOptions(ctx, "plan it for all requests, to compare what one costs"), planning.Plan, in).Get(ctx, &next); err != nil {
		return c, err
	}
	perRequest := func(plan scheduler.Plan, rate float64) float64 {
		return plan.CostPerHour() / rate / time.Hour.Seconds()
	}
	return rollout.Cost{Stable: perRequest(s.Serving.Plan, s.Serving.Rate()), Canary: perRequest(next, spec.Pipeline.Rate)}, nil
}

// hold waits for a verdict. Hold itself means that another request interrupts the trial.
func (s *service) hold(ctx workflow.Context, cost rollout.Cost) rollout.Decision {
	for {
		if why := s.disturbed(); why != "" {
			return rollout.Decision{Verdict: rollout.Revert, Reason: why}
		}
		if s.newcomers() {
			if err := s.shareWithJoined(ctx); err != nil {
				return rollout.Decision{Verdict: rollout.Revert, Reason: "a gateway that has joined does not serve it: " + activities.Reason(err)}
			}
		}
		held := workflow.Now(ctx).Sub(s.Trial.Since)
		d := rollout.Decide(s.Trial.Update, held, s.Trial.seen(), cost)
		if d.Verdict != rollout.Hold || s.Pending || s.Stop != "" {
			return d
		}
		s.show(ctx)
		before := s.Handled
		wait := workflow.AwaitOptions{Timeout: d.Until - held, TimerOptions: workflow.TimerOptions{Summary: "until the trial ends"}}
		_, err := workflow.AwaitWithOptions(ctx, wait, func() bool { return s.Handled != before || s.hasWork() })
		if err != nil {
			return rollout.Decision{Verdict: rollout.Hold}
		}
	}
}

// disturbed reports what has happened to the executors of either generation, which ends a
// trial: what serves has priority over what is tried.
func (s *service) disturbed() string {
	for _, r := range append(slices.Clone(s.Trial.Running), s.Running...) {
		if why, ended := s.Ended[r.Workflow]; ended {
			return "executor " + r.Slot.Executor + " ended: " + why
		}
		if slices.Contains(s.Lost, r.Slot.Host) {
			return s.gone(r.Slot.Host)
		}
		if slices.Contains(s.Leaving, r.Slot.Host) {
			return "host " + r.Slot.Host + " is about to leave"
		}
	}
	s.Ended, s.Lost, s.Stopped, s.Leaving = map[string]string{}, nil, nil, nil // of none of them
	if s.Astray != "" {
		return s.Astray
	}
	if s.Reinstall {
		return "the gateway restarted"
	}
	return ""
}

// shareWithJoined gives gateways that have just joined what serves and what is tried.
func (s *service) shareWithJoined(ctx workflow.Context) error {
	some := slices.Clone(s.New)
	s.installOnJoined(ctx)
	s.setPhase(ctx, Trying)
	if err := s.install(ctx, gatewayQueues(ctx, some, s.present), s.Trial.Deployed, s.hasWork); err != nil {
		return err
	}
	return s.giveShare(ctx, some, s.Trial.Update)
}

// endTrial takes away what was deployed for the trial; what goes wrong at a gateway does
// not keep it.
func (s *service) endTrial(ctx workflow.Context) {
	if s.Trial == nil {
		return
	}
	log, name, all := workflow.GetLogger(ctx), rollout.Name(s.Name), gatewayQueues(ctx, s.Gateways, s.present)
	if err := s.giveShare(ctx, s.Gateways, pipelines.Update{}); err != nil {
		log.Warn("a gateway did not end the trial", "error", err)
	}
	var gateway *activities.GatewayActivities
	if err := awaitParts(ctx, beginParts(ctx, all, "finish what was tried", ReleaseTimeout, gateway.Remove, name, placement.Age{})); err != nil {
		log.Warn("a gateway did not finish the requests of the trial", "error", err)
	}
	if err := releaseExecutors(ctx, all, name, slotsOf(s.Trial.Running)); err != nil {
		log.Warn("executors of the trial did not finish in time", "error", err)
	}
	cancelExecutors(ctx, s.Trial.Running)
	var fleet *activities.Fleet
	nothing := activities.Reservation{Service: ServiceID(s.Kind, name), Slots: []placement.Slot{}, Forget: true}
	if err := workflow.ExecuteActivity(fleetOptions(ctx, "give the devices of the trial back"), fleet.Reserve, nothing).Get(ctx, nil); err != nil {
		log.Error("devices of the trial not given back", "error", err)
	}
	for _, r := range s.Trial.Running {
		delete(s.Ended, r.Workflow)
	}
	s.Trial = nil
}

// takeBack makes the declaration that serves the one in force again, after a change that
// was tried and is not wanted, unless something else has been requested already.
func (s *service) takeBack(generation int) {
	tried := s.Declarations.By(generation) // an earlier one, where executors were lost before it was tried
	s.Declarations = slices.DeleteFunc(s.Declarations, func(d Declaration) bool { return d.Generation == tried && !d.Served })
	if s.Generation != generation {
		return
	}
	spec := s.Serving.Spec
	by := s.Declarations.By(s.carried())
	for _, d := range s.Declarations {
		if d.Generation == by {
			spec = d.Spec
		}
	}
	s.forgetPoints(spec)
	s.Spec, s.Beside, s.Profile, s.Try = spec, nil, true, false
}

// sawTrial notes what a gateway saw of both generations, and what all saw together.
func (s *service) sawTrial(m, all autoscale.Measures) {
	t := s.Trial
	if t == nil || m.Canary == nil || m.Canary.Generation != t.Generation {
		return
	}
	t.By[m.Gateway] = *m.Canary
	all.Modules = all.Tried
	tried, _ := t.Deployed.Spec.Measured()
	for _, a := range t.Pace.Observe(all, tried.Modules) {
		if a.Slower {
			t.Slower[a.Module] = a
		}
	}
}
