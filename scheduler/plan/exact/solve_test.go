package exact

import (
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/paper"
)

var exactly = Policy{Start: paper.Start}

// names are all policies.
func names() []string { return append([]string{plan.PolicyExact}, paper.Names()...) }

func named(name string) plan.Policy {
	if name == "" || name == plan.PolicyExact {
		return exactly
	}
	return paper.Named(name)
}

func solve(p plan.Problem, o plan.Options) plan.Plan { return plan.Solve(p, o, named(o.Policy)) }

func solveAll(problems []plan.Problem, o plan.Options) []plan.Plan {
	if plans, ok := exactly.SolveAll(problems, o); ok {
		return plans
	}
	var plans []plan.Plan
	for _, p := range problems {
		plans = append(plans, solve(p, o))
	}
	return plans
}

func splitLatency(p plan.Problem, o plan.Options) (plan.Budgets, error) {
	return plan.SplitLatency(p, o, named(o.Policy))
}

func scheduleModules(p plan.Problem, o plan.Options, b plan.Budgets) (plan.Plan, error) {
	return plan.ScheduleModules(p, o, b, named(o.Policy))
}

// asPaper plans as the Harpagon paper does.
var asPaper = plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional}
