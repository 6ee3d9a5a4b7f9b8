package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
	"github.com/harpagon/harpagon/scheduler/pool"
	"github.com/harpagon/harpagon/scheduler/sizing"
)

// Planning is the set of activities that decide. They are pure; as activities
// each decision stands in the history with its input and its outcome.
type Planning struct{}

// SplitLatency divides the objective among the modules. An objective that
// cannot be met fails with type TypeInfeasible and is not retried.
func (Planning) SplitLatency(ctx context.Context, in SplitInput) (plan.Budgets, error) {
	budgets, err := policies.SplitLatency(in.Problem, endingWith(ctx, servable(in.Options)))
	return budgets, final(err, TypeInvalid, in.Problem.Pipeline)
}

// endingWith ends a search with the activity.
func endingWith(ctx context.Context, o plan.Options) plan.Options {
	o.Stop = func() bool { return ctx.Err() != nil }
	return o
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
func (Planning) ScheduleModules(ctx context.Context, in ScheduleInput) (plan.Plan, error) {
	p, err := sizing.ScheduleModules(in.Problem, endingWith(ctx, servable(in.Options)), in.Budgets)
	if err == nil && p.Status == plan.Infeasible {
		return p, temporal.NewNonRetryableApplicationError(WithDisturbed(p.Reason, in.Problem.Pipeline), TypeInfeasible, nil)
	}
	return p, final(err, TypeInvalid, in.Problem.Pipeline)
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
	return p, final(err, TypeInvalid, in.Pipeline)
}

// Reconcile says what to start, keep and stop.
func (Planning) Reconcile(_ context.Context, in ReconcileInput) (placement.Changes, error) {
	return placement.Reconcile(in.Desired, in.Actual), nil
}

// WithDisturbed is the reason why there is no plan, and a word about profiles
// that were measured on a busy machine: they may be the true one.
func WithDisturbed(reason string, p pipelines.Pipeline) string {
	if warning := pipelines.Disturbed(p.Modules...); warning != "" {
		return reason + "; " + warning
	}
	return reason
}

// final marks an error of a pure function: the same input fails the same way
// again.
func final(err error, kind string, p pipelines.Pipeline) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var infeasible *plan.InfeasibleError
	var misfit *placement.MisfitError
	switch {
	case errors.As(err, &infeasible):
		kind, text = TypeInfeasible, WithDisturbed(text, p)
	case errors.As(err, &misfit):
		kind, text = TypeMisfit, WithDisturbed(text, p)
	}
	return temporal.NewNonRetryableApplicationError(text, kind, nil)
}
