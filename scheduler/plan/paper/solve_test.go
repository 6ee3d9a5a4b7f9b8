package paper

import (
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/exact"
)

// names are all policies, exact with them, that these are compared with.
func names() []string { return append([]string{plan.PolicyExact}, Names()...) }

func named(name string) plan.Policy {
	if name == plan.PolicyExact {
		return exact.Policy{Start: Start}
	}
	return Named(name)
}

func solve(p plan.Problem, o plan.Options) plan.Plan { return plan.Solve(p, o, named(o.Policy)) }

func splitLatency(p plan.Problem, o plan.Options) (plan.Budgets, error) {
	return plan.SplitLatency(p, o, named(o.Policy))
}

func scheduleModules(p plan.Problem, o plan.Options, b plan.Budgets) (plan.Plan, error) {
	return plan.ScheduleModules(p, o, b, named(o.Policy))
}

func check(o plan.Options) error {
	_, err := named(o.Policy).Complete(o)
	return err
}

// searching is the search of a policy over a problem.
func searching(t require.TestingT, p *plan.Problem, o plan.Options) *search {
	by := Named(o.Policy).(policy)
	ready, err := plan.Prepare(p, o, by)
	require.NoError(t, err)
	return by.search(ready)
}
