package sizing

import (
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// margin writes what the headroom of a plan costs: cost is what the plan for even
// arrivals costs.
func margin(p plan.Problem, o plan.Options, out *plan.Plan, cost float64) {
	if out.Headroom <= 0 || out.Status == plan.Infeasible {
		return
	}
	if without := policies.Solve(p.Relaxed(), o); without.Status != plan.Infeasible {
		more := dearer(cost, without.Cost)
		out.HeadroomCost = &more
	}
}

// dearer is by how much one cost is above another, beyond rounding.
func dearer(cost, than float64) float64 {
	const rounding = 1e-9
	if cost <= than*(1+rounding) {
		return 0
	}
	return cost - than
}

// margins writes what the headroom of plans that were made together costs.
func margins(problems []plan.Problem, o plan.Options, plans []plan.Plan) {
	relaxed := make([]plan.Problem, len(problems))
	kept := false
	for i, p := range problems {
		relaxed[i], kept = p.Relaxed(), kept || plans[i].Headroom > 0
	}
	if !kept {
		return
	}
	for i, without := range policies.SolveAll(relaxed, o) {
		if plans[i].Headroom > 0 && plans[i].Status != plan.Infeasible && without.Status != plan.Infeasible {
			more := dearer(plans[i].Cost, without.Cost)
			plans[i].HeadroomCost = &more
		}
	}
}
