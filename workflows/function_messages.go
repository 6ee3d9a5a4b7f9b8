package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// listen installs updates and the query of status.
func (f *function) listen(ctx workflow.Context) error {
	for _, u := range []struct {
		name, about        string
		handler, validator any
	}{
		{UpdateApply, "replace the spec", f.apply, f.checkApply},
		{UpdateDrain, "stop serving, keep the spec", f.drain, f.checkStop},
		{UpdateDelete, "stop serving and end", f.delete, nil},
	} {
		options := workflow.UpdateHandlerOptions{Validator: u.validator, Description: u.about}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, u.name, u.handler, options); err != nil {
			return err
		}
	}
	return workflow.SetQueryHandler(ctx, QueryStatus, func() (FunctionStatus, error) { return f.status(), nil })
}

func (f *function) status() FunctionStatus {
	s := FunctionStatus{
		Function: f.Name, Phase: f.Phase, Generation: f.Generation, Rate: f.Spec.Function.Rate(), Cause: f.Cause, Pending: f.Pending,
		Decisions: f.Decisions, Failure: f.Failure, Measures: f.Measures,
	}
	if f.Serving != nil {
		s.Serving, s.Plan = f.Serving.Generation, &f.Serving.Plan
		s.Generation, s.Rate = f.Serving.Generation, f.Serving.Function.Rate()
		if f.Generation != f.Serving.Generation || f.Failure != nil {
			s.Asked = &Asked{Generation: f.Generation, Rate: f.Spec.Function.Rate(), Cause: f.Cause}
			s.Cause = carriedOut(f.Decisions)
		}
		s.Cost, s.CostPerRequest = f.Serving.Plan.CostPerHour(), f.Serving.Plan.CostPerRequest
	}
	return s
}

func (f *function) checkApply(_ workflow.Context, r FunctionApply) error {
	if err := f.accepts(r.Expect); err != nil {
		return err
	}
	if name := r.Spec.Function.Name; name != f.Name {
		return fmt.Errorf("workflows: function %q was sent to the workflow of %q", name, f.Name)
	}
	return CheckFunctionSpec(r.Spec)
}

func (f *function) accepts(expect int) error {
	if f.Stop == StopDelete || f.Phase == Deleted {
		return fmt.Errorf("workflows: function %q is being deleted; apply it again when it has gone", f.Name)
	}
	if expect != 0 && expect != f.Generation {
		return fmt.Errorf("workflows: function %q is at generation %d, not %d; look at its status and try again", f.Name, f.Generation, expect)
	}
	return nil
}

func (f *function) checkStop(workflow.Context, string) error { return f.accepts(0) }

func (f *function) apply(_ workflow.Context, r FunctionApply) (ChangeReply, error) {
	f.Handled++
	if alike(f.Spec, r.Spec) && f.Stop == "" && (f.Serving != nil || f.Pending) {
		return ChangeReply{Generation: f.Generation, Unchanged: true}, nil
	}
	f.Spec, f.Stop = r.Spec, ""
	f.ask(orDefault(r.Reason, "applied"))
	return ChangeReply{Generation: f.Generation}, nil
}

func (f *function) drain(_ workflow.Context, why string) (ChangeReply, error) {
	return f.halting(StopDrain, why), nil
}

func (f *function) delete(_ workflow.Context, why string) (ChangeReply, error) {
	return f.halting(StopDelete, why), nil
}

func (f *function) halting(stop Stop, why string) ChangeReply {
	f.Handled++
	unchanged := f.Stop == stop || stop == StopDrain && f.Phase == Drained
	if !unchanged && f.Stop != StopDelete {
		f.Stop, f.Cause = stop, orDefault(why, string(stop)+" asked for")
	}
	return ChangeReply{Generation: f.Generation, Unchanged: unchanged}
}

func functionSignals() []string { return []string{SignalMeasures, SignalGatewayStarted} }

// hear starts the goroutines that take signals.
func (f *function) hear(ctx workflow.Context) {
	for _, name := range functionSignals() {
		workflow.Go(ctx, func(ctx workflow.Context) {
			ch := workflow.GetSignalChannel(ctx, name)
			for {
				f.take(name, func(into any) bool { return ch.Receive(ctx, into) })
			}
		})
	}
}

// hearRest takes the signals that have arrived and were not taken yet.
func (f *function) hearRest(ctx workflow.Context) {
	for _, name := range functionSignals() {
		ch := workflow.GetSignalChannel(ctx, name)
		for f.take(name, ch.ReceiveAsync) {
		}
	}
}

// take receives one signal and notes it; false when there was none.
func (f *function) take(name string, receive func(any) bool) bool {
	switch name {
	case SignalMeasures:
		var m functions.Measures
		if !receive(&m) {
			return false
		}
		f.measured(m)
	case SignalGatewayStarted:
		var address string
		if !receive(&address) {
			return false
		}
		f.Reinstall = true
	}
	f.Handled++
	return true
}

// watch begins to compare rates with the plan that serves now.
func (f *function) watch(now time.Time) {
	f.Drift = nil
	for _, a := range f.Serving.Function.Applications {
		one := ApplicationDrift{Application: a.Name}
		one.Drift.Options = f.Settings.Drift
		one.Drift.Reset(a.Rate, now)
		f.Drift = append(f.Drift, one)
	}
}

// measured looks whether the rate of an application has left the plan. One that
// nobody calls keeps the rate it was declared with, as a pipeline does.
func (f *function) measured(m functions.Measures) {
	f.Measures = &m
	if f.Settings.Fixed || f.Serving == nil || f.Pending || f.Phase != Serving || m.Generation != f.Serving.Generation {
		return
	}
	cause := ""
	next := f.Spec
	next.Function.Applications = slices.Clone(next.Function.Applications)
	for i := range f.Drift {
		d := &f.Drift[i]
		advice, changed := d.observe(m)
		a := next.Function.Application(d.Application)
		switch {
		case a == nil:
		case changed:
			a.Rate = neat(advice.Rate)
			cause = orDefault(cause, fmt.Sprintf("the load of %s changed: %s", d.Application, advice.Describe()))
		case d.Drift.Side != 0 && d.Drift.Smooth > 0:
			a.Rate = neat(d.Drift.Smooth) // where there is a new plan anyway
		}
	}
	if cause != "" {
		f.Spec = next
		f.ask(cause)
	}
}

func (d *ApplicationDrift) observe(m functions.Measures) (autoscale.Advice, bool) {
	for _, a := range m.Applications {
		if a.Name != d.Application {
			continue
		}
		if a.Offered == 0 {
			d.Drift.Side, d.Drift.Seen, d.Drift.Smooth, d.Drift.Last = 0, 0, d.Drift.Planned, m.To
			return autoscale.Advice{}, false
		}
		quiet := d.Drift.Quiet
		advice := d.Drift.Observe(autoscale.Measures{From: m.From, To: m.To, Offered: a.Offered})
		if !advice.Reschedule {
			return advice, false
		}
		if advice.Rate*advice.Held.Seconds() < autoscale.DefaultMinRequests {
			d.Drift.Quiet = quiet // a few requests are no load; a real one shall find it awake
			return advice, false
		}
		return advice, true
	}
	return autoscale.Advice{}, false
}

// enter changes the phase and shows it.
func (f *function) enter(ctx workflow.Context, phase Phase) {
	f.Phase = phase
	f.show(ctx)
	if !f.Settings.SearchAttributes {
		return
	}
	updates := searchAttributes(f.Name, f.Generation, phase, f.status().Cost)
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not set", "error", err)
	}
}

// show writes the current details that Temporal's UI displays.
func (f *function) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, "```\n"+f.status().Describe()+"```\n")
}
