package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// keepDecisions bounds the decisions that a service remembers.
const keepDecisions = 20

// change carries out the latest spec. What comes meanwhile sets Pending again.
func (s *service) change(ctx workflow.Context) {
	s.Pending, s.Joined, s.RetryAt = false, false, time.Time{}
	s.changing = true
	defer func() { s.changing = false }()
	if s.Serving == nil {
		s.announce(ctx, s.Gateways)
	}
	if s.Serving != nil && s.Serving.Generation == s.Generation && mendsFirst(ctx) {
		s.Generation++ // what serves was mended under it
	}
	generation, cause, by := s.Generation, s.Cause, s.By // they may be replaced meanwhile
	var reply RescheduleReply
	told := s.tellMeanwhile(ctx)
	err := s.begin(ctx)
	if err == nil {
		err = s.try(ctx, generation, cause)
	}
	if err == nil {
		reply, err = s.profileAndReschedule(ctx, generation, cause)
	}
	told()
	s.endTrial(ctx)
	s.decide(ctx, generation, cause, reply, err)
	s.Decisions[len(s.Decisions)-1].By = by
	if activities.ReasonType(err) == activities.TypeReverted {
		s.takeBack(generation)
	}
	if err == nil {
		s.Try = s.Try && s.Generation != generation // what is measured of it later is not tried
		s.Carries = 0
		s.serve(ctx, reply)
		if s.Joined {
			s.hostsCame(ctx, "a host has joined")
		}
		return
	}
	s.fail(ctx, generation, err)
	switch {
	case !s.broken():
	case mendsFirst(ctx):
		s.Mend = s.lack()
	case !s.hasWork():
		s.Mend = s.lack()
		s.repair(ctx)
	}
}

// lack is what is missing of what serves.
func (s *service) lack() string {
	if s.NotInstalled {
		return "the gateway is without the plan that serves"
	}
	return "executors of the plan that serves are missing"
}

// repair carries out the spec that serves when the latest one cannot be, and
// executors have gone or the gateway has not what serves. It is tried again
// until it works.
func (s *service) repair(ctx workflow.Context) {
	cause := s.Mend
	s.Mend = ""
	generation, failure, by := s.Generation, *s.Failure, s.Declarations.By(s.carried())
	reply, err := s.reschedule(ctx, s.Serving.Spec, nil, generation, cause)
	s.decide(ctx, generation, cause, reply, err)
	if err == nil {
		s.Carries = by
		s.serve(ctx, reply)
	} else {
		s.Failures++
		if s.broken() && !failure.RetryAt.After(workflow.Now(ctx)) { // else it would be due at once, again and again
			failure.RetryAt = s.retryTime(ctx)
		}
		s.setPhase(ctx, s.idle())
	}
	s.Failure, s.RetryAt = &failure, failure.RetryAt
}

// decide remembers what was tried and what came of it.
func (s *service) decide(ctx workflow.Context, generation int, cause string, reply RescheduleReply, err error) {
	d := Decision{Generation: generation, At: workflow.Now(ctx), Reason: cause}
	if err != nil {
		d.Failure = activities.Reason(err)
	} else {
		d.Change, d.Start, d.Stop, d.Keep = reply.Change, reply.Start, reply.Stop, len(reply.Running)-reply.Start
		if f := reply.Deployed.Plan.Function; f != nil {
			d.Groups = len(f.Groups)
		}
	}
	workflow.GetLogger(ctx).Info("change decided", "service", s.Name, "generation", generation, "cause", cause, "difference", d.Change.Describe(), "failure", d.Failure)
	s.Decisions = append(s.Decisions, d)
	s.Decisions = s.Decisions[max(0, len(s.Decisions)-keepDecisions):]
}

func (s *service) profileAndReschedule(ctx workflow.Context, generation int, cause string) (reply RescheduleReply, err error) {
	spec, beside := s.Spec, s.beside()
	if s.Profile {
		s.setPhase(ctx, Profiling)
		if err := s.profile(ctx, spec); err != nil {
			return reply, err
		}
	}
	return s.rescheduleTo(ctx, s.profiled(spec), beside, s.given(generation), generation, cause)
}

// given is the plan that was applied with the spec, as long as that is the latest.
func (s *service) given(generation int) *scheduler.Plan {
	if s.Generation != generation {
		return nil
	}
	return s.Given
}

// beside are the services to be planned together with this one. Those whose
// profiles are still to be measured are not: their own workflows do that.
func (s *service) beside() (all []scheduler.Spec) {
	if s.Alone || len(lacking(s.Spec)) > 0 {
		return nil // the others could not count on it
	}
	for _, other := range s.Beside {
		if len(lacking(other)) == 0 {
			all = append(all, other)
		}
	}
	return all
}

func (s *service) reschedule(ctx workflow.Context, spec scheduler.Spec, beside []scheduler.Spec, generation int, cause string) (RescheduleReply, error) {
	return s.rescheduleTo(ctx, spec, beside, nil, generation, cause)
}

// rescheduleTo carries out a plan, or where that is nil the best that is found.
func (s *service) rescheduleTo(ctx workflow.Context, spec scheduler.Spec, beside []scheduler.Spec, given *scheduler.Plan, generation int, cause string) (reply RescheduleReply, err error) {
	s.Attempts++
	s.setPhase(ctx, Planning)
	ctx = rescheduleOptions(ctx, s.Name, s.Attempts, s.summary(spec, generation, cause), s.replaced())
	request := RescheduleRequest{
		Spec: spec, Beside: beside, Generation: generation, Life: s.Life, Number: s.Attempts, Reason: cause,
		Serving: s.Serving, Running: s.Running, Settings: s.Settings, Transfer: s.Transfer, Given: given,
		ShortSearch: s.Kind == scheduler.KindPool && s.Serving != nil && s.Alone, // not requested: its queries have drifted
	}
	if s.Trial != nil {
		request.Replaces = ServiceID(s.Kind, s.Trial.Deployed.Spec.Name())
	}
	s.under = rescheduleID(s.Name, s.Attempts)
	defer func() { s.under = "" }()
	err = workflow.ExecuteChildWorkflow(ctx, TypeReschedule, request).Get(ctx, &reply)
	return reply, err
}

// rescheduleOptions are those of a change, as the UI shows it.
func rescheduleOptions(ctx workflow.Context, name string, number int, summary, details string) workflow.Context {
	return workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:        rescheduleID(name, number),
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:     summary,
		StaticDetails:     details,
	})
}

// profile measures modules without a profile, those of pipelines and pools.
func (s *service) profile(ctx workflow.Context, spec scheduler.Spec) error {
	if s.Kind == scheduler.KindCluster {
		return s.profileMembers(ctx, spec)
	}
	measured, _ := spec.Measured()
	if spec = s.profiled(spec); len(lacking(spec)) == 0 || spec.Pool != nil && spec.Pool.Learned {
		s.Profile = false
		return nil
	}
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:    profileID(s.Name, s.Attempts+1),
		StaticSummary: "profile the modules of " + s.Name,
	})
	request := ProfileRequest{Service: ServiceID(s.Kind, s.Name), Pipeline: measured, Hardware: spec.Hardware, Again: s.Again}
	var reply ProfileReply
	if err := workflow.ExecuteChildWorkflow(ctx, TypeProfile, request).Get(ctx, &reply); err != nil {
		return err
	}
	for _, name := range workflow.DeterministicKeys(reply.Points) {
		s.Points[name] = reply.Points[name]
	}
	s.Profile, s.Again = false, false
	return nil
}

// lacking are the modules of a service without a profile.
func lacking(s scheduler.Spec) []pipelines.Module {
	p, _ := s.Measured()
	return lackingProfile(p)
}

// profiled is the spec with the points measured while it serves, or, for
// modules that declare none, before.
func (s *service) profiled(spec scheduler.Spec) scheduler.Spec {
	if spec.Cluster != nil {
		return s.profiledMembers(spec)
	}
	p, _ := spec.Measured()
	points := map[string][]pipelines.Point{}
	for _, m := range p.Modules {
		if served := s.Served[m.Name]; len(served) > 0 {
			points[m.Name] = served
		} else if len(m.Profile.Points) == 0 {
			points[m.Name] = s.Points[m.Name]
		}
	}
	return spec.WithProfiles(points)
}

func (s *service) serve(ctx workflow.Context, reply RescheduleReply) {
	s.Serving, s.Running = &reply.Deployed, reply.Running
	s.Declarations = s.Declarations.Carried(s.carried())
	s.installed(reply)
	s.Missing = nil
	s.Failure, s.Failures, s.Reinstall, s.NotInstalled = nil, 0, false, false
	if reply.Warning != "" {
		workflow.GetLogger(ctx).Warn("old executors were cancelled before they had finished", "reason", reply.Warning)
	}
	s.Detectors.reset(s.Settings, s.Serving, workflow.Now(ctx))
	s.setPhase(ctx, Serving)
}

// fail notes why a change was not carried out, and when it is tried again. What
// served goes on.
func (s *service) fail(ctx workflow.Context, generation int, err error) {
	s.Failures++
	s.Failure = &Failure{Generation: generation, At: workflow.Now(ctx), Reason: activities.Reason(err), Type: activities.ReasonType(err)}
	if p := s.Serving; p != nil && p.Plan.Pipeline != nil && s.Failure.Type == activities.TypeInfeasible {
		s.Transfer = p.Plan.Pipeline.Transfer // what cannot be counted on must not stand in the way of other changes
	}
	s.Pending = s.Pending || s.Joined // the host has come since the change looked for one
	s.Pending = s.Pending || s.newcomers() && s.Failure.Type == activities.TypeLeft
	if why := interrupted(err); why != "" && mends(ctx) {
		s.Failure.Reason, s.Astray, s.Pending = why, why, true
	}
	final := s.Failure.Type == activities.TypeInfeasible || s.Failure.Type == activities.TypeInvalid || s.Failure.Type == activities.TypeReverted
	if !final && !s.Pending {
		s.RetryAt = s.retryTime(ctx)
		s.Failure.RetryAt = s.RetryAt
	}
	s.setPhase(ctx, s.idle())
}

// retryTime is when a change that has failed is due again; the wait doubles up to
// ten times the first.
func (s *service) retryTime(ctx workflow.Context) time.Time {
	wait := cmp.Or(s.Settings.RetryAfter, DefaultRetryAfter)
	return workflow.Now(ctx).Add(min(wait<<min(s.Failures-1, 4), 10*wait))
}

// idle is the phase while nothing is under way.
func (s *service) idle() Phase {
	if s.Serving != nil && (len(s.Running) > 0 || len(s.Serving.Slots) == 0) {
		return Serving
	}
	return Waiting
}

// What is measured of a cluster's modules is kept in State.Points under the names that
// placement.Resident gives them, since modules of several pipelines may have one name.

// profileMembers measures the modules of a cluster that have no profile, pipeline by
// pipeline.
func (s *service) profileMembers(ctx workflow.Context, spec scheduler.Spec) error {
	for _, p := range s.profiledMembers(spec).Members {
		if len(lackingProfile(p)) == 0 {
			continue
		}
		ctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:    profileID(placement.Resident(s.Name, p.Name), s.Attempts+1),
			StaticSummary: fmt.Sprintf("profile the modules of %s for %s", p.Name, s.Name),
		})
		request := ProfileRequest{Service: ServiceID(s.Kind, s.Name), Pipeline: p, Hardware: onlyHardware(spec), Again: s.Again}
		var reply ProfileReply
		if err := workflow.ExecuteChildWorkflow(ctx, TypeProfile, request).Get(ctx, &reply); err != nil {
			return err
		}
		for _, module := range workflow.DeterministicKeys(reply.Points) {
			s.Points[placement.Resident(p.Name, module)] = reply.Points[module]
		}
	}
	s.Profile, s.Again = false, false
	return nil
}

// onlyHardware is the declared hardware of a cluster's devices.
func onlyHardware(spec scheduler.Spec) []pipelines.Hardware {
	return slices.DeleteFunc(slices.Clone(spec.Hardware), func(h pipelines.Hardware) bool { return h.Name != spec.Cluster.Hardware })
}

// profiledMembers is profiled of a cluster.
func (s *service) profiledMembers(spec scheduler.Spec) scheduler.Spec {
	spec.Members = slices.Clone(spec.Members)
	for i := range spec.Members {
		p := &spec.Members[i]
		p.Modules = slices.Clone(p.Modules)
		for k := range p.Modules {
			if m := &p.Modules[k]; len(m.Profile.Points) == 0 {
				m.Profile.Points = s.Points[placement.Resident(p.Name, m.Name)]
			}
		}
	}
	return spec
}

// lackingMembers are the pipelines of a cluster with modules that declare no profile.
func (s *service) lackingMembers() (names []string) {
	for _, p := range s.Spec.Members {
		if len(lackingProfile(p)) > 0 {
			names = append(names, p.Name)
		}
	}
	return names
}

// sizeMeasured checks whether the cluster has too few or too many devices, by measures of
// the serving generation alone. Where its declaration leaves the size open it is planned
// again with as many as are advised; advice beyond what is allowed or available is
// reported.
func (s *service) sizeMeasured(ctx workflow.Context, m autoscale.Measures) {
	d := &s.Detectors
	if m.Generation != s.Serving.Generation {
		return
	}
	devices := s.Serving.Plan.Cluster.Devices
	needed := d.Cluster.Rise(m.Latest, devices)
	allowed := d.Cluster.Within(needed, devices)
	if needed.Change == 0 || !risesAtOnce(ctx) {
		if m.From.Before(d.Cluster.Since) {
			return
		}
		if d.Cluster.Low > 0 && !risesAtOnce(ctx) {
			d.Cluster.Low = 0
		}
		needed, allowed = d.Cluster.Compare(m.OfCluster(devices))
	} else if allowed.Change > 0 {
		d.Cluster.Grew(m.To)
	}
	switch {
	case needed.Change != 0:
		d.Scale = &needed
	case needed.Bad <= size.DefaultBad:
		d.Scale = nil
	}
	wanted := devices + allowed.Change
	if allowed.Change == 0 || s.Settings.Fixed || wanted == s.Spec.Devices {
		return
	}
	s.Spec.Devices = wanted
	s.replan("the load changed: " + allowed.Describe())
}
