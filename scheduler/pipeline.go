package scheduler

import (
	"cmp"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// pipelineService is a pipeline, on devices of its own or shared with others.
type pipelineService struct{ noService }

func (pipelineService) kind() Kind                             { return KindPipeline }
func (s pipelineService) name() string                         { return s.Pipeline.Name }
func (s pipelineService) planning() pipelines.Planning         { return s.Pipeline.Plan }
func (s pipelineService) slo() time.Duration                   { return s.Pipeline.SLO }
func (s pipelineService) rate(Plan) float64                    { return s.Pipeline.Rate }
func (s pipelineService) measured() (pipelines.Pipeline, bool) { return *s.Pipeline, true }

func (s pipelineService) withProfiles(points map[string][]pipelines.Point) Spec {
	p := *s.Pipeline
	p.Modules = slices.Clone(p.Modules)
	for i := range p.Modules {
		if own := points[p.Modules[i].Name]; len(own) > 0 {
			p.Modules[i].Profile.Points = own
		}
	}
	s.Pipeline = &p
	return s.Spec
}

// together is true of pipelines that may share devices, planned in the same way for the
// same hardware.
func (s pipelineService) together(other Spec) bool {
	return sharesDevices(s.Spec) && sharesDevices(other) && samePlanning(s.Pipeline.Plan, other.Pipeline.Plan) && slices.Equal(s.Hardware, other.Hardware)
}

func sharesDevices(s Spec) bool {
	return s.Pipeline != nil &&
		pipelines.PlanPolicyNamed(KindPipeline, s.Pipeline.Plan.Policy).Together &&
		cmp.Or(s.Pipeline.Plan.CostModel, plan.CostShared) == plan.CostShared &&
		cmp.Or(s.Pipeline.Arrivals, pipelines.ArrivalsEven) == pipelines.ArrivalsEven
}

func samePlanning(a, b pipelines.Planning) bool {
	return cmp.Or(a.Policy, plan.PolicyExact) == cmp.Or(b.Policy, plan.PolicyExact) &&
		cmp.Or(a.CostModel, plan.CostShared) == cmp.Or(b.CostModel, plan.CostShared) &&
		a.Split == b.Split && a.Reading == b.Reading && a.Concurrency == b.Concurrency && slices.Equal(a.Without, b.Without)
}

func (s pipelineService) solve(group []Spec, fleet Fleet, limits Limits) []Plan {
	var plans []Plan
	for i, p := range solveVariants(group, fleet, s.Pipeline.Plan, limits) {
		if p.Status == plan.Infeasible {
			p.Reason = withDisturbed(p.Reason, group[i].Pipeline)
		}
		plans = append(plans, Plan{Pipeline: &p})
	}
	return plans
}

// withDisturbed is the reason why there is no plan, and a word about profiles
// that were measured on a busy machine: they may be the true one.
func withDisturbed(reason string, p *pipelines.Pipeline) string {
	if warning := pipelines.Disturbed(p.Modules...); warning != "" {
		return reason + "; " + warning
	}
	return reason
}

func (s pipelineService) deploy(d *placement.Deployment, p Plan) {
	d.Pipeline, d.Plan = *s.As(p).Pipeline, *p.Pipeline
}
