package workflows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
)

// setPhase changes the phase and shows it.
func (s *service) setPhase(ctx workflow.Context, phase Phase) {
	s.Phase = phase
	s.show(ctx)
	if !s.Settings.SearchAttributes {
		return
	}
	cost := 0.0
	if s.Serving != nil {
		cost = s.Serving.Plan.CostPerHour()
	}
	updates := searchAttributes(s.Name, s.Generation, phase, cost)
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not set", "error", err)
	}
}

// show writes the current details that Temporal's UI displays.
func (s *service) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, s.details())
}

func (s *service) details() string {
	st := s.status()
	text := fmt.Sprintf("# %s: %s\n\n%s, generation %d, %s requests/s", s.Name, s.Phase, s.Kind, st.Generation, quantity.Number(st.Rate))
	if st.Cause != "" {
		text += "  \nbecause: " + st.Cause
	}
	text += "\n"
	if st.Requested != nil {
		text += "\n" + st.Requested.Describe()
	}
	if st.Trial != nil {
		text += "\n" + st.Trial.Describe()
	}
	if s.Failure != nil {
		text += "\n**" + s.Failure.Describe() + "**\n"
	}
	if st.Plan != nil {
		text += fmt.Sprintf("\n## Plan that serves (generation %d)\n\n```\n%s```\n", st.Serving, st.Plan.Describe())
	}
	if len(s.Decisions) > 0 {
		text += "\n## Decisions\n\n"
	}
	for _, d := range slices.Backward(s.Decisions) {
		what := d.Change.Describe()
		if d.Failure != "" {
			what = "failed: " + d.Failure
		}
		text += fmt.Sprintf("- **generation %d**, %s, %s: %s\n", d.Generation, d.At.UTC().Format("15:04:05"), d.Reason, what)
	}
	return text
}

// summary is the one line of a reschedule in the UI.
func (s *service) summary(spec scheduler.Spec, generation int, cause string) string {
	if p := spec.Pool; p != nil {
		return fmt.Sprintf("generation %d of pool %s, %s an hour: %s", generation, s.Name, quantity.Money(p.Budget), cause)
	}
	to := quantity.Number(spec.Rate(scheduler.Plan{})) + "/s"
	if s.Serving == nil {
		return fmt.Sprintf("generation %d of %s, %s: %s", generation, s.Name, to, cause)
	}
	change := "rate " + fromToText(quantity.Number(s.Serving.Rate())+"/s", to)
	if from := s.Serving.Spec.SLO(); from != spec.SLO() {
		change += fmt.Sprintf(", SLO %v -> %v", from, spec.SLO())
	}
	return fmt.Sprintf("generation %d of %s, %s: %s", generation, s.Name, change, cause)
}

// replaced describes what a reschedule replaces.
func (s *service) replaced() string {
	if s.Serving == nil {
		return "Nothing served before."
	}
	return fmt.Sprintf("Replaces generation %d, which costs %s per hour:\n\n```\n%s```\n",
		s.Serving.Generation, quantity.Money(s.Serving.Plan.CostPerHour()), s.Serving.Plan.Describe())
}

// unfit are the settings of measured modules that cannot run. Of modules that leave their
// batch sizes open only those of programs are listed: models may take fewer.
func (s *service) unfit() string {
	p := s.Serving.Spec.Pipeline
	if p == nil {
		return ""
	}
	var all []string
	for i := range p.Modules {
		m := &p.Modules[i]
		declared := s.Spec.Pipeline.Module(m.Name)
		if declared == nil || len(declared.Profile.Points) > 0 || len(m.Batches) == 0 && len(m.Command) == 0 {
			continue
		}
		var kinds []string
		for _, at := range m.Profile.Points {
			if slices.Contains(kinds, at.Hardware) {
				continue
			}
			kinds = append(kinds, at.Hardware)
			task := executors.MeasureTask{Module: *m, Hardware: at.Hardware, Concurrency: p.Plan.Concurrencies()}
			if missing := task.DescribeMissing(m.Profile.Points); missing != "" {
				all = append(all, fmt.Sprintf("%s on %s: %s", m.Name, at.Hardware, missing))
			}
		}
	}
	return strings.Join(all, ". ")
}

func (s *service) status() Status {
	planning := s.Spec.Planning()
	st := Status{
		Kind: s.Kind, Name: s.Name, Phase: s.Phase, Generation: s.Generation, Rate: s.Spec.Rate(scheduler.Plan{}),
		Cause: s.Cause, Pending: s.Pending || s.changing, Policy: planning.Policy, CostModel: planning.CostModel,
		Decisions: s.Decisions, Declared: s.Declarations.Summaries(s.carried()), Failure: s.Failure, Measures: s.Measures,
		Executors: slotsOf(s.Running), Missing: s.absent(),
	}
	if s.Serving == nil {
		return st
	}
	d := s.Serving.Deployment()
	st.Plan, st.Serving, st.Generation = &s.Serving.Plan, s.Serving.Generation, s.Serving.Generation
	st.Policy, st.CostModel = st.Plan.Policy()
	st.Rate, st.Cost = s.Serving.Rate(), st.Plan.CostPerHour()
	switch s.Kind {
	case scheduler.KindFunction:
	case scheduler.KindCluster:
		st.Dispatch = d.Cluster.Dispatch
	default:
		st.Dispatch = cmp.Or(d.Pipeline.Dispatch, factory.Default)
	}
	all := modulesOf(&d)
	for _, m := range all {
		if len(m.Content) > 0 {
			st.Files = append(st.Files, ModuleFiles{Module: m.Name, Files: m.Content})
		}
	}
	st.Transfers, st.Transfer = s.Detectors.Transfers.Hosts, s.Transfer
	st.Scale, st.Answered = s.Detectors.Scale, s.Answered
	st.Arrivals, st.Away = s.Detectors.Arrivals.Seen(), s.Detectors.Rate.Away()
	for _, f := range s.Detectors.Fanouts.Modules {
		if f.Describe() != "" {
			st.Fanouts = append(st.Fanouts, f)
		}
	}
	if p := s.Serving.Spec.Pipeline; p != nil {
		st.Broken = s.Detectors.Promise.Broken(p)
	}
	st.Void, st.Healed, st.Disturbed = s.slower(), s.healed(), pipelines.Disturbed(all...)
	st.Unfit = s.unfit()
	if t := s.Trial; t != nil {
		st.Trial = &TrialStatus{Seen: t.seen(), Since: t.Since, Update: t.Update}
	}
	if s.Generation != st.Serving || s.Failure != nil {
		st.Requested = &PendingChange{Generation: s.Generation, Rate: s.Spec.Rate(scheduler.Plan{}), Cause: s.Cause}
		st.Cause = s.carriedOut()
	}
	return st
}

// servingGeneration is the generation that serves; 0 when none does.
func (s *service) servingGeneration() int {
	if s.Serving == nil {
		return 0
	}
	return s.Serving.Generation
}

// carried is a generation of the declaration that serves: what serves may have been mended
// under a later generation than that of a declaration that could not be carried out.
func (s *service) carried() int { return cmp.Or(s.Carries, s.servingGeneration()) }

// carriedOut is the reason of the latest change that was carried out.
func (s *service) carriedOut() string {
	for _, d := range slices.Backward(s.Decisions) {
		if d.Failure == "" {
			return d.Reason
		}
	}
	return ""
}
