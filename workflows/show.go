package workflows

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// enter changes the phase and shows it.
func (p *pipeline) enter(ctx workflow.Context, phase Phase) {
	p.Phase = phase
	p.show(ctx)
	if !p.Settings.SearchAttributes {
		return
	}
	updates := searchAttributes(p.Name, p.Generation, phase, p.cost())
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not set", "error", err)
	}
}

// show writes the current details that Temporal's UI displays.
func (p *pipeline) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, p.details())
}

func (p *pipeline) details() string {
	s := p.status()
	text := fmt.Sprintf("# %s: %s\n\ngeneration %d, %s requests/s", p.Name, p.Phase, s.Generation, rate(s.Rate))
	if s.Cause != "" {
		text += "  \nbecause: " + s.Cause
	}
	text += "\n"
	if s.Asked != nil {
		text += "\n" + s.Asked.Describe()
	}
	if p.Failure != nil {
		text += "\n**" + p.Failure.Describe() + "**\n"
	}
	if p.Serving != nil {
		text += fmt.Sprintf("\n## Plan that serves (generation %d)\n\n```\n%s```\n", p.Serving.Generation, describePlan(&p.Serving.Plan, p.Pool))
	}
	if len(p.Decisions) > 0 {
		text += "\n## Decisions\n\n"
		for i := len(p.Decisions) - 1; i >= 0; i-- {
			d := p.Decisions[i]
			what := d.Change.Describe()
			if d.Failure != "" {
				what = "failed: " + d.Failure
			}
			text += fmt.Sprintf("- **generation %d**, %s, %s: %s\n", d.Generation, d.At.UTC().Format("15:04:05"), d.Reason, what)
		}
	}
	return text
}

// summary is the one line of a reschedule in the UI.
func (p *pipeline) summary(spec Spec, cause string) string {
	if q := spec.Pool; q != nil {
		return fmt.Sprintf("generation %d of pool %s, %s an hour: %s", p.Generation, p.Name, money(q.Budget), cause)
	}
	to := rate(spec.Pipeline.Rate)
	if p.Serving == nil {
		return fmt.Sprintf("generation %d of %s, %s/s: %s", p.Generation, p.Name, to, cause)
	}
	change := "rate " + moved(rate(p.Serving.Pipeline.Rate)+"/s", to+"/s")
	if from := p.Serving.Pipeline.SLO; from != spec.Pipeline.SLO {
		change += fmt.Sprintf(", SLO %v -> %v", from, spec.Pipeline.SLO)
	}
	return fmt.Sprintf("generation %d of %s, %s: %s", p.Generation, p.Name, change, cause)
}

// before describes what a reschedule replaces.
func (p *pipeline) before() string {
	if p.Serving == nil {
		return "Nothing served before."
	}
	return fmt.Sprintf("Replaces generation %d, which costs %s per hour:\n\n```\n%s```\n",
		p.Serving.Generation, money(p.Serving.Plan.Cost), describePlan(&p.Serving.Plan, p.Pool))
}

func (p *pipeline) cost() float64 {
	if p.Serving == nil {
		return 0
	}
	return p.Serving.Plan.Cost
}

func (p *pipeline) status() Status {
	s := Status{
		Pipeline: p.Name, Phase: p.Phase, Generation: p.Generation, Rate: p.planned(), Cost: p.cost(),
		Cause: p.Cause, Pending: p.Pending, Decisions: p.Decisions, Failure: p.Failure, Measures: p.Measures, Pool: p.Pool,
		Executors: append([]placement.Slot(nil), slots(p.Running)...),
	}
	if p.Serving != nil {
		s.Serving, s.Plan, s.Dispatch = p.Serving.Generation, &p.Serving.Plan, orDefault(p.Serving.Pipeline.Dispatch, factory.Default)
		p.apart(&s)
		s.Void, s.Healed, s.Disturbed = p.void(), p.healed(), pipelines.Disturbed(p.Serving.Pipeline.Modules...)
	}
	return s
}

// apart keeps what serves apart from what is asked for, where these differ: a
// change is under way, or could not be carried out.
func (p *pipeline) apart(s *Status) {
	s.Generation = p.Serving.Generation
	if p.Serving.Pool == nil {
		s.Rate = p.Serving.Pipeline.Rate
	}
	if p.Generation == p.Serving.Generation && p.Failure == nil {
		return
	}
	s.Asked = &Asked{Generation: p.Generation, Cause: p.Cause}
	if p.Spec.Pool == nil {
		s.Asked.Rate = p.Spec.Pipeline.Rate
	}
	s.Cause = carriedOut(p.Decisions)
}

// carriedOut is the reason of the latest change that was carried out.
func carriedOut[D interface {
	outcome() (reason, failure string)
}](all []D) string {
	for _, d := range slices.Backward(all) {
		if reason, failure := d.outcome(); failure == "" {
			return reason
		}
	}
	return ""
}

func (d Decision) outcome() (reason, failure string)         { return d.Reason, d.Failure }
func (d FunctionDecision) outcome() (reason, failure string) { return d.Reason, d.Failure }
