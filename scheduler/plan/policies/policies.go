// Package policies plans pipelines by the policy that their options name. It
// stands above the packages that hold policies, and adds nothing but the choice.
package policies

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/exact"
	"github.com/harpagon/harpagon/scheduler/plan/paper"
)

// Names lists the names that plan.Options.Policy takes, the default first.
func Names() []string { return append([]string{plan.PolicyExact}, paper.Names()...) }

// Of is the policy that options name, among those of a program (plan.Options.Policies), too.
func Of(o plan.Options) (plan.Policy, error) {
	name := o.Policy
	if name == "" || name == plan.PolicyExact {
		return exact.Policy{Start: paper.Start}, nil
	}
	if p := paper.Named(name); p != nil {
		return p, nil
	}
	if p := o.Policies[name]; p != nil {
		return p, nil
	}
	if pipelines.Qualified(name) {
		return nil, fmt.Errorf("plan: this program has no policy %q; start the one that brings it, or choose one of %s", name, strings.Join(Names(), ", "))
	}
	return nil, fmt.Errorf("plan: there is no policy %q; there is %s", name, strings.Join(Names(), ", "))
}

// Check reports what is wrong with the options, naming what exists.
func Check(o plan.Options) error {
	by, err := Of(o)
	if err == nil {
		_, err = by.Complete(o)
	}
	return err
}

// Solve plans one pipeline. It always returns a plan: when the objective
// cannot be met, or the problem or the options make no sense, the plan has
// status Infeasible and reports why in Reason.
func Solve(p plan.Problem, o plan.Options) plan.Plan {
	by, err := Of(o)
	if err != nil {
		return o.Infeasible(&p, err)
	}
	return plan.Solve(p, o, by)
}

// jointly is a policy that plans several pipelines in one search; false where it cannot.
type jointly interface {
	SolveAll([]plan.Problem, plan.Options) ([]plan.Plan, bool)
}

// SolveAll plans several pipelines together, in their order. Under cost model
// shared, policy exact lets groups of different pipelines share devices; a plan
// then is charged for its part of a device in proportion to the time it uses.
// Everything else is planned one by one.
func SolveAll(problems []plan.Problem, o plan.Options) []plan.Plan {
	by, _ := Of(o)
	if together, ok := by.(jointly); ok {
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
	by, err := Of(o)
	if err != nil {
		return nil, err
	}
	return plan.SplitLatency(p, o, by)
}

// ScheduleModules chooses groups for every module within its budget: the second
// step. A module that cannot keep its budget is an *plan.InfeasibleError.
func ScheduleModules(p plan.Problem, o plan.Options, b plan.Budgets) (plan.Plan, error) {
	by, err := Of(o)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.ScheduleModules(p, o, b, by)
}
