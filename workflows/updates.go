package workflows

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
)

// setHandlers installs updates and the query of the status. An update's handler
// only notes what is wanted and answers; its validator rejects before history is
// written.
func (s *service) setHandlers(ctx workflow.Context) error {
	for _, u := range []struct {
		name, about        string
		handler, validator any
	}{
		{UpdateApply, "replace the spec", s.apply, s.checkApply},
		{UpdateRescale, "plan for another rate", s.rescale, s.checkRescale},
		{UpdateRollback, "go back to a declaration that served before", s.rollback, s.checkRollback},
		{UpdateProfile, "measure modules again", s.remeasure, s.checkRemeasure},
		{UpdateDrain, "stop serving, keep the spec", s.drain, s.checkDrain},
		{UpdateDelete, "stop serving and end", s.delete, nil},
	} {
		options := workflow.UpdateHandlerOptions{Validator: u.validator, Description: u.about}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, u.name, u.handler, options); err != nil {
			return err
		}
	}
	if err := workflow.SetQueryHandler(ctx, QueryState, func() (State, error) { return s.state(), nil }); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, QueryStatus, func() (Status, error) { return s.status(), nil })
}

// errorf is an error about the service.
func (s *service) errorf(format string, args ...any) error {
	return fmt.Errorf("workflows: %s %q "+format, append([]any{s.Kind, s.Name}, args...)...)
}

func (s *service) checkApply(_ workflow.Context, r ApplyRequest) error {
	if err := s.accepts(r.Expect); err != nil {
		return err
	}
	if r.Spec.Kind() != s.Kind || r.Spec.Name() != s.Name {
		return s.errorf("was sent the spec of %s %q", r.Spec.Kind(), r.Spec.Name())
	}
	if err := SpecFaults(r.Spec); err != nil || r.Plan == nil {
		return err
	}
	if why := r.Plan.Refusal(r.Spec); why != "" {
		return s.errorf("was sent a plan that cannot be served: %s", why)
	}
	return nil
}

func (s *service) accepts(expect int) error {
	if s.Stop == StopDelete || s.Stopping == StopDelete || s.Phase == Deleted {
		return s.errorf("is being deleted; apply it again when it has gone")
	}
	if expect != 0 && max(expect, 0) != s.Generation {
		return s.errorf("is at generation %d, not %d; look at its status and try again", s.Generation, expect)
	}
	return nil
}

func (s *service) apply(ctx workflow.Context, r ApplyRequest) (ChangeReply, error) {
	s.Handled++
	if sameJSON(s.Spec, r.Spec) && sameJSON(s.Beside, r.Beside) && s.inForce(ctx) && s.planned(ctx, r.Plan) {
		return ChangeReply{Generation: s.Generation, Unchanged: true}, nil
	}
	s.forgetPoints(r.Spec)
	s.Spec, s.Beside, s.Profile, s.Stop = r.Spec, r.Beside, true, ""
	s.replan(cmp.Or(r.Reason, "applied"))
	s.declare(ctx)
	s.Alone, s.Try, s.Given, s.By = false, true, r.Plan, r.By
	return ChangeReply{Generation: s.Generation}, nil
}

// planned reports that a plan, if one is given, is the one that serves, or that is carried
// out first.
func (s *service) planned(ctx workflow.Context, p *scheduler.Plan) bool {
	if p != nil && s.Serving == nil {
		return s.Given != nil && sameJSON(*s.Given, *p) && first(ctx)
	}
	return p == nil || sameJSON(s.Serving.Plan, *p)
}

// inForce reports that the spec serves, or is about to.
func (s *service) inForce(ctx workflow.Context) bool {
	return s.Stop == "" && (s.Serving != nil && s.Stopping == "" || s.Pending || s.changing && first(ctx))
}

// patchFirst marks services whose first change is in force while it is carried out.
const patchFirst = "a first change under way is in force"

func first(ctx workflow.Context) bool {
	return workflow.GetVersion(ctx, patchFirst, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// forgetPoints drops measured points of modules that have changed. What has not changed is
// not measured again; the store of profiles would return the same.
func (s *service) forgetPoints(next scheduler.Spec) {
	was, is := s.Spec.Pipeline, next.Pipeline
	if was == nil || is == nil || !sameJSON(s.Spec.Hardware, next.Hardware) || !sameJSON(was.Inputs, is.Inputs) {
		s.Points, s.Served = map[string][]pipelines.Point{}, nil
		return
	}
	for _, m := range is.Modules {
		if old := was.Module(m.Name); old == nil || !sameJSON(*old, m) {
			delete(s.Points, m.Name)
			delete(s.Served, m.Name)
		}
	}
}

// sameJSON compares as history would.
func sameJSON(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

func (s *service) rescale(ctx workflow.Context, r RescaleRequest) (ChangeReply, error) {
	s.Handled++
	from := s.Spec.Pipeline.Rate
	if from == r.Rate && s.inForce(ctx) {
		return ChangeReply{Generation: s.Generation, Unchanged: true}, nil
	}
	s.Stop = ""
	s.setRate(r.Rate)
	s.replan(cmp.Or(r.Reason, fmt.Sprintf("rescaled from %s/s to %s/s", quantity.Number(from), quantity.Number(r.Rate))))
	s.declare(ctx)
	return ChangeReply{Generation: s.Generation}, nil
}

// declare keeps the declaration that was requested; replan has made its generation.
func (s *service) declare(ctx workflow.Context) {
	if len(s.Declarations) == 0 && s.Serving != nil { // of a service that has remembered none yet
		first := Declaration{Generation: s.Serving.Generation, Reason: s.carriedOut(), Served: true, Spec: s.Serving.Spec}
		s.Declarations = append(s.Declarations, first)
	}
	s.Declarations = append(s.Declarations, Declaration{Generation: s.Generation, At: workflow.Now(ctx), Reason: s.Cause, Spec: s.Spec})
}

func (s *service) checkRollback(_ workflow.Context, r RollbackRequest) error {
	if err := s.accepts(r.Expect); err != nil {
		return err
	}
	if _, err := s.Declarations.Earlier(r.To, s.carried(), s.Generation); err != nil {
		return s.errorf("%w", err)
	}
	return nil
}

func (s *service) rollback(ctx workflow.Context, r RollbackRequest) (ChangeReply, error) {
	s.Handled++
	to, err := s.Declarations.Earlier(r.To, s.carried(), s.Generation)
	if err != nil {
		return ChangeReply{}, s.errorf("%w", err) // it was let through before another update
	}
	s.forgetPoints(to.Spec)
	s.Spec, s.Beside, s.Profile, s.Stop = to.Spec, nil, true, ""
	s.Try = false // to go back is urgent
	s.replan(cmp.Or(r.Reason, fmt.Sprintf("rolled back to generation %d", to.Generation)))
	s.By = r.By
	s.declare(ctx)
	return ChangeReply{Generation: s.Generation}, nil
}

// remeasure forgets what was measured, before and while serving, and measures
// everything again that has no profile on file.
func (s *service) remeasure(_ workflow.Context, why string) (ChangeReply, error) {
	s.Handled++
	s.Points, s.Served = map[string][]pipelines.Point{}, nil
	s.Profile, s.Again, s.Stop = true, true, ""
	s.replan(cmp.Or(why, "profiles are measured again"))
	return ChangeReply{Generation: s.Generation}, nil
}

func (s *service) checkDrain(workflow.Context, string) error { return s.accepts(0) }

func (s *service) drain(_ workflow.Context, why string) (ChangeReply, error) {
	return s.requestStop(StopDrain, why), nil
}

func (s *service) delete(_ workflow.Context, why string) (ChangeReply, error) {
	return s.requestStop(StopDelete, why), nil
}

func (s *service) requestStop(stop Stop, why string) ChangeReply {
	s.Handled++
	stopped := s.Stopping == stop || stop == StopDrain && s.Phase == Drained
	unchanged := s.Stop == stop || stopped && s.Stop == "" && !s.Pending
	if !unchanged && s.Stop != StopDelete {
		s.Stop, s.Cause = stop, cmp.Or(why, string(stop)+" requested")
	}
	return ChangeReply{Generation: s.Generation, Unchanged: unchanged}
}

func (s *service) checkRescale(_ workflow.Context, r RescaleRequest) error {
	if err := s.accepts(r.Expect); err != nil {
		return err
	}
	switch fixed := kindOf(s.Kind).fixedRate(); {
	case fixed != "":
		return s.errorf("%s", fixed)
	case s.Generation == 0:
		return s.errorf("has no spec yet; apply one first")
	case !(r.Rate > 0) || math.IsInf(r.Rate, 1):
		return fmt.Errorf("workflows: the rate is %v; it must be a number of requests per second above zero", r.Rate)
	}
	return nil
}

func (s *service) checkRemeasure(workflow.Context, string) error {
	if err := s.accepts(0); err != nil {
		return err
	}
	if len(lacking(s.Spec))+len(s.lackingMembers()) == 0 {
		return s.errorf("has nothing to measure: %s on file", kindOf(s.Kind).profiles())
	}
	return nil
}

// SpecFaults reports what is wrong with a spec; nil where it may be planned.
func SpecFaults(s scheduler.Spec) error {
	if s.Name() == "" {
		return errors.New("faults: the spec has no service with a name")
	}
	if err := ofKind(s); err != nil {
		return fmt.Errorf("%s %q: %w", s.Kind(), s.Name(), err)
	}
	return nil
}

func ofKind(s scheduler.Spec) error {
	for _, fault := range s.Planning().Faults(s.Kind()) {
		return fmt.Errorf("%s of its plan: %s", fault.Attribute, fault.Detail)
	}
	if s.Function == nil && len(s.Hardware) == 0 {
		return errors.New("it has no hardware to run on; declare a hardware block")
	}
	return kindOf(s.Kind()).fault(s)
}
