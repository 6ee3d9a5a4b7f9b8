// Package policies plans pipelines by the policy that their options name. It
// stands above the packages that hold policies, and adds nothing but the choice.
package policies

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/exact"
	"github.com/harpagon/harpagon/scheduler/plan/paper"
)

// Names lists the names that plan.Options.Policy takes, the default first.
func Names() []string { return append([]string{plan.PolicyExact}, paper.Names()...) }

// Steps lists the names that plan.Options.Without takes.
func Steps() []string { return paper.Steps() }

// Named is a policy by its name; empty for the default.
func Named(name string) (plan.Policy, error) {
	if name == "" || name == plan.PolicyExact {
		return exact.Policy{Start: paper.Start}, nil
	}
	if p := paper.Named(name); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("plan: there is no policy %q; there is %s", name, strings.Join(Names(), ", "))
}

// Check reports what is wrong with the options, naming what exists.
func Check(o plan.Options) error {
	by, err := Named(o.Policy)
	if err == nil {
		_, err = by.Complete(o)
	}
	return err
}

// Solve plans one pipeline. It always returns a plan: when the objective
// cannot be met, or the problem or the options make no sense, the plan has
// status Infeasible and says why in Reason.
func Solve(p plan.Problem, o plan.Options) plan.Plan {
	by, err := Named(o.Policy)
	if err != nil {
		return o.Infeasible(&p, err)
	}
	return plan.Solve(p, o, by)
}

// SolveAll plans several pipelines together, in their order. Under cost model
// shared, policy exact lets groups of different pipelines share devices; a plan
// then is charged for its part of a device in proportion to the time it uses.
// Everything else is planned one by one.
func SolveAll(problems []plan.Problem, o plan.Options) []plan.Plan {
	by, _ := Named(o.Policy)
	if together, ok := by.(exact.Policy); ok {
		if plans, ok := together.SolveAll(problems, o); ok {
			return plans
		}
	}
	var plans []plan.Plan
	for _, p := range problems {
		plans = append(plans, Solve(p, o))
	}
	return plans
}

// SplitLatency divides the objective among the modules: the first of the two
// steps of the papers. An objective that cannot be met is an
// *plan.InfeasibleError.
func SplitLatency(p plan.Problem, o plan.Options) (plan.Budgets, error) {
	by, err := Named(o.Policy)
	if err != nil {
		return nil, err
	}
	return plan.SplitLatency(p, o, by)
}

// ScheduleModules chooses groups for every module within its budget: the second
// step. A module that cannot keep its budget is an *plan.InfeasibleError.
func ScheduleModules(p plan.Problem, o plan.Options, b plan.Budgets) (plan.Plan, error) {
	by, err := Named(o.Policy)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.ScheduleModules(p, o, b, by)
}
