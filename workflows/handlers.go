package workflows

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// listen installs updates and queries. An update's handler only notes what is
// wanted and answers; its validator rejects before history is written.
func (p *pipeline) listen(ctx workflow.Context) error {
	for _, u := range []struct {
		name, about        string
		handler, validator any
	}{
		{UpdateApply, "replace the spec", p.apply, p.checkApply},
		{UpdateRescale, "plan for another rate", p.rescale, p.checkRescale},
		{UpdateProfile, "measure modules anew", p.remeasure, p.checkRemeasure},
		{UpdateDrain, "stop serving, keep the spec", p.drain, p.checkStop},
		{UpdateDelete, "stop serving and end", p.delete, nil},
	} {
		options := workflow.UpdateHandlerOptions{Validator: u.validator, Description: u.about}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, u.name, u.handler, options); err != nil {
			return err
		}
	}
	if err := workflow.SetQueryHandler(ctx, QueryStatus, func() (Status, error) { return p.status(), nil }); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, QueryPlan, p.plan); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, QueryHistory, func() ([]Decision, error) { return p.Decisions, nil })
}

func (p *pipeline) plan() (plan.Plan, error) {
	if p.Serving == nil {
		return plan.Plan{}, fmt.Errorf("workflows: pipeline %q has no plan that serves; its status says why", p.Name)
	}
	return p.Serving.Plan, nil
}

func (p *pipeline) checkApply(_ workflow.Context, r ApplyRequest) error {
	if err := p.accepts(r.Expect); err != nil {
		return err
	}
	if name := r.Spec.Pipeline.Name; name != p.Name {
		return fmt.Errorf("workflows: pipeline %q was sent to the workflow of %q", name, p.Name)
	}
	return CheckSpec(r.Spec)
}

// CheckSpec finds what no plan could mend, so that it never enters history.
func CheckSpec(s Spec) error {
	q := s.Pipeline
	if q.Name == "" {
		return fmt.Errorf("workflows: the pipeline has no name")
	}
	if len(s.Hardware) == 0 {
		return fmt.Errorf("workflows: pipeline %q has no hardware to run on; declare a hardware block", q.Name)
	}
	if s.Pool != nil {
		return checkPool(s)
	}
	if err := policies.Check(s.Options); err != nil {
		return err
	}
	if err := factory.Suits(q.Dispatch); err != nil {
		return fmt.Errorf("workflows: pipeline %q: %w", q.Name, err)
	}
	return plan.Problem{Pipeline: q, Hardware: s.Hardware}.Check()
}

func (p *pipeline) accepts(expect int) error {
	if p.Stop == StopDelete || p.Phase == Deleted {
		return fmt.Errorf("workflows: pipeline %q is being deleted; apply it again when it has gone", p.Name)
	}
	if expect != 0 && expect != p.Generation {
		return fmt.Errorf("workflows: pipeline %q is at generation %d, not %d; look at its status and try again", p.Name, p.Generation, expect)
	}
	return nil
}

func (p *pipeline) apply(_ workflow.Context, r ApplyRequest) (ChangeReply, error) {
	p.Handled++
	if p.same(r.Spec) && p.Stop == "" && (p.Serving != nil || p.Pending) {
		return ChangeReply{Generation: p.Generation, Unchanged: true}, nil
	}
	p.forget(r.Spec)
	p.Spec, p.Profile, p.Stop = r.Spec, true, ""
	p.ask(orDefault(r.Reason, "applied"))
	return ChangeReply{Generation: p.Generation}, nil
}

// forget drops measured points of modules that have changed. What has not
// changed is not measured again; the store of profiles would say the same.
func (p *pipeline) forget(next Spec) {
	for _, m := range next.Pipeline.Modules {
		if old := p.Spec.Pipeline.Module(m.Name); old == nil || !alike(*old, m) {
			delete(p.Points, m.Name)
			delete(p.Served, m.Name)
		}
	}
	if !alike(p.Spec.Hardware, next.Hardware) || !alike(p.Spec.Pipeline.Inputs, next.Pipeline.Inputs) {
		p.Points, p.Served = map[string][]pipelines.Point{}, nil
	}
}

func (p *pipeline) same(next Spec) bool { return alike(p.Spec, next) }

// alike compares as history would.
func alike(a, b any) bool {
	x, errA := json.Marshal(a)
	y, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(x) == string(y)
}

func (p *pipeline) checkRescale(_ workflow.Context, r RescaleRequest) error {
	if err := p.accepts(r.Expect); err != nil {
		return err
	}
	if p.Generation == 0 {
		return fmt.Errorf("workflows: pipeline %q has no spec yet; apply one first", p.Name)
	}
	if p.Spec.Pool != nil {
		return fmt.Errorf("workflows: pool %q has no rate to change: it serves what its budget pays for; apply it with another budget", p.Name)
	}
	if !(r.Rate > 0) || math.IsInf(r.Rate, 1) {
		return fmt.Errorf("workflows: the rate is %v; it must be a number of requests per second above zero", r.Rate)
	}
	return nil
}

func (p *pipeline) rescale(_ workflow.Context, r RescaleRequest) (ChangeReply, error) {
	p.Handled++
	if p.Spec.Pipeline.Rate == r.Rate && p.Stop == "" && (p.Serving != nil || p.Pending) {
		return ChangeReply{Generation: p.Generation, Unchanged: true}, nil
	}
	p.Stop = ""
	p.ask(orDefault(r.Reason, fmt.Sprintf("rescaled from %s/s to %s/s", rate(p.Spec.Pipeline.Rate), rate(r.Rate))))
	p.Spec.Pipeline.Rate = r.Rate
	return ChangeReply{Generation: p.Generation}, nil
}

func (p *pipeline) checkRemeasure(workflow.Context, string) error {
	if err := p.accepts(0); err != nil {
		return err
	}
	if p.Generation == 0 || p.Spec.Pool != nil || len(lacking(p.Spec.Pipeline)) == 0 {
		return fmt.Errorf("workflows: pipeline %q has nothing to measure: its modules have profiles on file", p.Name)
	}
	return nil
}

// remeasure forgets what was measured, before and while serving, and measures
// everything again that has no profile on file.
func (p *pipeline) remeasure(_ workflow.Context, why string) (ChangeReply, error) {
	p.Handled++
	p.Points, p.Served = map[string][]pipelines.Point{}, nil
	p.Profile, p.Again, p.Stop = true, true, ""
	p.ask(orDefault(why, "profiles are measured anew"))
	return ChangeReply{Generation: p.Generation}, nil
}

func (p *pipeline) checkStop(workflow.Context, string) error { return p.accepts(0) }

func (p *pipeline) drain(_ workflow.Context, why string) (ChangeReply, error) {
	return p.halting(StopDrain, why), nil
}

func (p *pipeline) delete(_ workflow.Context, why string) (ChangeReply, error) {
	return p.halting(StopDelete, why), nil
}

func (p *pipeline) halting(stop Stop, why string) ChangeReply {
	p.Handled++
	unchanged := p.Stop == stop || stop == StopDrain && p.Phase == Drained
	if !unchanged && p.Stop != StopDelete {
		p.Stop, p.Cause = stop, orDefault(why, string(stop)+" asked for")
	}
	return ChangeReply{Generation: p.Generation, Unchanged: unchanged}
}

func pipelineSignals() []string {
	return []string{SignalMeasures, SignalFleetChanged, SignalExecutorEnded, SignalGatewayStarted, signalProgress}
}

// hear starts the goroutines that take signals.
func (p *pipeline) hear(ctx workflow.Context) {
	for _, name := range pipelineSignals() {
		workflow.Go(ctx, func(ctx workflow.Context) {
			ch := workflow.GetSignalChannel(ctx, name)
			for {
				p.take(ctx, name, func(into any) bool { return ch.Receive(ctx, into) })
			}
		})
	}
}

// hearRest takes the signals that have arrived and were not taken yet.
func (p *pipeline) hearRest(ctx workflow.Context) {
	for _, name := range pipelineSignals() {
		ch := workflow.GetSignalChannel(ctx, name)
		for p.take(ctx, name, ch.ReceiveAsync) {
		}
	}
}

// take receives one signal and notes it; false when there was none.
func (p *pipeline) take(ctx workflow.Context, name string, receive func(any) bool) bool {
	switch name {
	case SignalMeasures:
		var m autoscale.Measures
		if !receive(&m) {
			return false
		}
		p.measured(ctx, m)
	case SignalFleetChanged:
		var c FleetChange
		if !receive(&c) {
			return false
		}
		p.fleetChanged(c)
	case SignalExecutorEnded:
		var e ExecutorEnded
		if !receive(&e) {
			return false
		}
		p.Ended[e.Workflow] = e.Reason
	case SignalGatewayStarted:
		var address string
		if !receive(&address) {
			return false
		}
		p.Settings.Gateway = orDefault(address, p.Settings.Gateway)
		p.Reinstall = true
	case signalProgress:
		var phase Phase
		if !receive(&phase) {
			return false
		}
		if p.Phase == Planning {
			p.enter(ctx, phase)
		}
	}
	p.Handled++
	return true
}

// measured lets the detectors look at what the gateway saw. Time without any
// request is no drift: a pipeline that nobody calls keeps its plan, ready for the
// rate that it was declared with.
func (p *pipeline) measured(ctx workflow.Context, m autoscale.Measures) {
	p.Measures = &m
	if p.Serving == nil || p.Pending || p.Phase != Serving {
		return
	}
	if p.Spec.Pool == nil && p.pace(ctx, m) || p.Settings.Fixed {
		return
	}
	if p.Spec.Pool != nil {
		p.sizesMeasured(m)
		return
	}
	if m.Arrived == 0 {
		p.Drift.Side, p.Drift.Seen, p.Drift.Smooth, p.Drift.Last = 0, 0, p.Drift.Planned, m.To
		return
	}
	quiet := p.Drift.Quiet
	advice := p.Drift.Observe(m)
	if !advice.Reschedule {
		return
	}
	if advice.Rate*advice.Held.Seconds() < autoscale.DefaultMinRequests {
		p.Drift.Quiet = quiet // a few requests are no load; a real one shall find it awake
		return
	}
	p.Spec.Pipeline.Rate = neat(advice.Rate)
	p.ask("the load changed: " + advice.Describe())
}

// neat keeps two significant digits, rounded up, because a plan for a few
// per cent more costs little and a plan for a few less is late.
func neat(rate float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(rate))-1)
	return math.Ceil(rate/step-1e-9) * step
}

func (p *pipeline) fleetChanged(c FleetChange) {
	p.Lost = append(p.Lost, c.Lost...)
	p.Joined = p.Joined || len(c.Joined) > 0
	if len(c.Joined) > 0 && p.Failure != nil && !p.Pending && p.Stop == "" {
		p.RetryAt, p.Pending = time.Time{}, true
	}
}
