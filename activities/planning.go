package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// Planning is the set of activities that decide. They are pure; as activities
// each decision stands in the history with its input and its outcome.
type Planning struct{}

// SplitLatency divides the objective among the modules. An objective that
// cannot be met fails with type TypeInfeasible and is not retried.
func (Planning) SplitLatency(_ context.Context, in SplitInput) (plan.Budgets, error) {
	budgets, err := plan.SplitLatency(in.Problem, servable(in.Options))
	return budgets, final(err, TypeInvalid)
}

// servable leaves out what executors cannot run: they run one batch at a time on
// a device.
func servable(o plan.Options) plan.Options {
	const step = "concurrency"
	if o.Policy == "" || o.Policy == plan.PolicyExact || o.Policy == plan.PolicyPiccolo {
		if !slices.Contains(o.Without, step) {
			o.Without = append(slices.Clone(o.Without), step)
		}
	}
	return o
}

// ScheduleModules chooses configurations and machines for the budgets, and for
// the arrivals that the pipeline declares.
func (Planning) ScheduleModules(_ context.Context, in ScheduleInput) (plan.Plan, error) {
	p, err := simulate.ScheduleModules(in.Problem, servable(in.Options), in.Budgets)
	if err == nil && p.Status == plan.Infeasible {
		return p, temporal.NewNonRetryableApplicationError(p.Reason, TypeInfeasible, nil)
	}
	return p, final(err, TypeInvalid)
}

// PlanPool chooses the instances of a pool.
func (Planning) PlanPool(_ context.Context, in PoolInput) (pool.Plan, error) {
	p := pool.Solve(in.Problem, in.Options)
	if p.Status == pool.Infeasible {
		return p, temporal.NewNonRetryableApplicationError(fmt.Sprintf("pool %q: %s", p.Pool, p.Reason), TypeInfeasible, nil)
	}
	return p, nil
}

// Place finds a device for every executor of the plan. What does not fit fails
// with type TypeMisfit: no retry helps until devices come or go.
func (Planning) Place(_ context.Context, in placement.Request) (placement.Placement, error) {
	p, err := placement.Place(in)
	return p, final(err, TypeInvalid)
}

// Reconcile says what to start, keep and stop.
func (Planning) Reconcile(_ context.Context, in ReconcileInput) (placement.Changes, error) {
	return placement.Reconcile(in.Desired, in.Actual), nil
}

// final marks an error of a pure function: the same input fails the same way
// again.
func final(err error, kind string) error {
	if err == nil {
		return nil
	}
	var infeasible *plan.InfeasibleError
	var misfit *placement.MisfitError
	switch {
	case errors.As(err, &infeasible):
		kind = TypeInfeasible
	case errors.As(err, &misfit):
		kind = TypeMisfit
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), kind, nil)
}
