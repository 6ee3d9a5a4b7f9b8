package scheduler

import (
	"fmt"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/sizing"
)

// solveVariants is solveGroup with the variants of modules that serve best. Of several
// pipelines with variants one after another chooses, the others as they are by then, so
// that the plans together cost no more than those without variants.
func solveVariants(specs []Spec, fleet Fleet, how pipelines.Planning, limits Limits) []plan.Plan {
	options := sizing.Options{Options: Options(how, limits), Dispatch: limits.Policies.Dispatch}
	varied := func(s Spec) bool { return s.Pipeline.Varied() || s.Pipeline.Accuracy > 0 }
	if !slices.ContainsFunc(specs, varied) {
		return solveGroup(specs, fleet, options)
	}
	ended := limits.ended()
	specs = slices.Clone(specs)
	var plans []plan.Plan
	for i := range specs {
		if varied(specs[i]) {
			plans = chooseVariants(specs, i, func(all []Spec) []plan.Plan { return solveGroup(all, fleet, options) }, ended)
		}
	}
	for i := range specs {
		if varied(specs[i]) && plans[i].Status != plan.Infeasible {
			plans[i].Accuracy, plans[i].Variants = specs[i].Pipeline.Right(), plan.ServedVariants(specs[i].Pipeline)
		}
	}
	return plans
}

// chooseVariants changes the pipeline of one of the specs to the combination that serves
// best, and returns the plans of all with it. One with which the others have plans, too, is
// preferred to one that takes the devices from them.
func chooseVariants(specs []Spec, one int, solve func([]Spec) []plan.Plan, ended func() bool) []plan.Plan {
	declared, aim := *specs[one].Pipeline, plan.LeastCost
	if declared.Degrades(specs[one].Hardware) {
		aim = plan.MostAccurate
	}
	found := map[string][]plan.Plan{}
	with := func(c plan.VariantCombination) []plan.Plan {
		as := declared.As(c.Variants)
		specs[one].Pipeline = &as
		name := c.Describe()
		if found[name] == nil {
			found[name] = solve(specs)
		}
		return found[name]
	}
	infeasible := func(p plan.Plan) bool { return p.Status == plan.Infeasible }
	var last plan.VariantCombination
	for _, all := range []bool{true, false} {
		best, ok, cut := plan.ChooseVariants(&declared, aim, ended, func(c plan.VariantCombination) (cost float64, ok bool) {
			plans := with(c)
			for _, p := range plans {
				cost += p.Cost
			}
			last = c
			return cost, !infeasible(plans[one]) && !(all && slices.ContainsFunc(plans, infeasible))
		})
		if ok {
			plans := with(best)
			plans[one].CutShort = plans[one].CutShort || cut
			return plans
		}
	}
	plans := with(last)
	p := &plans[one]
	reason := fmt.Sprintf("no combination of variants with an accuracy of at least %s has a plan; with %s: %s", quantity.Number(declared.Accuracy), last.Describe(), p.Reason)
	switch {
	case last.Variants == nil:
		reason = fmt.Sprintf("no combination of variants has an accuracy of %s", quantity.Number(declared.Accuracy))
	case last.Describe() == "": // a floor without any variant
		reason = p.Reason
	}
	*p = plan.Plan{Pipeline: p.Pipeline, Policy: p.Policy, CostModel: p.CostModel, Status: plan.Infeasible, Reason: reason, SLO: declared.SLO, CutShort: p.CutShort}
	return plans
}

// As is the spec of a pipeline with the variants that the plan states serve; any other is
// as it was.
func (s Spec) As(p Plan) Spec {
	if s.Pipeline != nil && p.Pipeline != nil && len(p.Pipeline.Variants) > 0 {
		as := plan.AsServed(*s.Pipeline, p.Pipeline.Variants)
		s.Pipeline = &as
	}
	return s
}

// relieveSteps halve what is not known of how much can be carried: to one in 64.
const relieveSteps = 6

// Relieve is a plan for as much of the rate of a pipeline as its devices can carry, where
// they are fixed and no combination of variants suffices for all of it: as many requests as
// can be are answered, and the others refused. In other cases it returns otherwise, the infeasible
// plan with its reason.
func Relieve(spec Spec, fleet Fleet, limits Limits, otherwise Plan) Plan {
	if spec.Pipeline == nil || !spec.Pipeline.Degrades(spec.Hardware) {
		return otherwise
	}
	ended := limits.ended()
	least, most := 0.0, 1.0
	for range relieveSteps {
		if ended() {
			break
		}
		share := (least + most) / 2
		part := *spec.Pipeline
		part.Rate *= share
		one := spec
		one.Pipeline = &part
		if p := Solve([]Spec{one}, fleet, limits)[0]; p.Reason() == "" {
			otherwise, least = p, share
			otherwise.Pipeline.Carries = part.Rate
		} else {
			most = share
		}
	}
	return otherwise
}
