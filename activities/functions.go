package activities

import (
	"context"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// FunctionGateway is what workflows want of what serves functions.
type FunctionGateway interface {
	// Prepare checks that the deployment can be served: addresses, token, and
	// that the provider answers.
	Prepare(ctx context.Context, d functions.Deployment) error
	// Install switches traffic; what waits moves, what is under way finishes.
	Install(ctx context.Context, d functions.Deployment) error
	// Remove stops serving a function, after the requests under way.
	Remove(ctx context.Context, function string) error
}

// FunctionActivities are the activities of a gateway that concern functions.
type FunctionActivities struct {
	Functions FunctionGateway
}

// RegisterFunctions registers what the gateway's worker does for functions.
func RegisterFunctions(w worker.ActivityRegistry, g Gateway) {
	w.RegisterActivity(&FunctionActivities{Functions: functionGateway{g}})
}

// functionGateway is a gateway as a FunctionGateway.
type functionGateway struct{ Gateway }

func (g functionGateway) Prepare(ctx context.Context, d functions.Deployment) error {
	return g.Gateway.Prepare(ctx, deployed(d))
}

func (g functionGateway) Install(ctx context.Context, d functions.Deployment) error {
	return g.Gateway.Install(ctx, deployed(d))
}

func deployed(d functions.Deployment) placement.Deployment {
	return placement.Deployment{Generation: d.Generation, Pipeline: pipelines.Pipeline{Name: d.Function.Name}, Function: &d}
}

// PrepareFunction checks that the deployment can be served.
func (f *FunctionActivities) PrepareFunction(ctx context.Context, d functions.Deployment) error {
	return told(f.Functions.Prepare(ctx, d))
}

// InstallFunction switches the function's traffic to the deployment.
func (f *FunctionActivities) InstallFunction(ctx context.Context, d functions.Deployment) error {
	return told(f.Functions.Install(ctx, d))
}

// RemoveFunction stops serving the function.
func (f *FunctionActivities) RemoveFunction(ctx context.Context, function string) error {
	return waiting(ctx, func(ctx context.Context) error { return f.Functions.Remove(ctx, function) })
}

// told keeps the whole reason: of an error with a cause only the innermost would
// be shown, and "connection refused" does not say whose. The workflow tries
// again, not the activity.
func told(err error) error {
	if err == nil {
		return nil
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), TypeNotReady, nil)
}

// FunctionInput is the input of PlanFunction.
type FunctionInput struct {
	Problem functions.Problem
	Options functions.Options
}

// PlanFunction chooses groups and functions. An objective that cannot be met
// fails with type TypeInfeasible and is not retried.
func (Planning) PlanFunction(_ context.Context, in FunctionInput) (functions.Plan, error) {
	p, err := functions.Solve(in.Problem, in.Options)
	if err == nil && p.Status == functions.Infeasible {
		return p, temporal.NewNonRetryableApplicationError(p.Reason, TypeInfeasible, nil)
	}
	return p, final(err, TypeInvalid, pipelines.Pipeline{})
}
