// Package policies plans pipelines by the policy that their options name.
package policies

import "github.com/harpagon/harpagon/scheduler/plan"

// Names lists the names that plan.Options.Policy takes.
func Names() []string { return plan.Policies() }

// Steps lists the names that plan.Options.Without takes.
func Steps() []string { return plan.Steps() }

// Solve plans one pipeline. It always returns a plan: when the objective
// cannot be met, or the problem or the options make no sense, the plan has
// status Infeasible and says why in Reason.
func Solve(p plan.Problem, o plan.Options) plan.Plan { return plan.Solve(p, o) }

// SolveAll plans several pipelines together, in their order.
func SolveAll(problems []plan.Problem, o plan.Options) []plan.Plan { return plan.SolveAll(problems, o) }

// SplitLatency divides the objective among the modules.
func SplitLatency(p plan.Problem, o plan.Options) (plan.Budgets, error) {
	return plan.SplitLatency(p, o)
}

// ScheduleModules chooses groups for every module within its budget.
func ScheduleModules(p plan.Problem, o plan.Options, b plan.Budgets) (plan.Plan, error) {
	return plan.ScheduleModules(p, o, b)
}
