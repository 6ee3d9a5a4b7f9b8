package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/scheduler/functions"
)

const (
	// attemptTimeout bounds one attempt to create or delete a plan's functions.
	attemptTimeout = 5 * time.Minute

	// silence is how long an attempt may go without heartbeats.
	silence = 15 * time.Second
)

// functionChange is a change of plan: what serves before and next; nil where nothing does, or
// where no functions are called.
type functionChange struct{ Before, Next *functions.Deployment }

// Managed reports whether there is anything to do for the next plan.
func (c functionChange) Managed() bool { return c.Next != nil && c.Next.Provider.Manage }

// Create has what the next plan calls beside what serves.
func (c functionChange) Create(ctx workflow.Context) error {
	return ensure(ctx, c.Next, functions.Both(c.before(), managed(c.Next)), "create what the next plan calls")
}

// Delete has what the next plan calls, and no more.
func (c functionChange) Delete(ctx workflow.Context) error {
	const why = "delete what is not called any more"
	if c.Before != nil && c.Next != nil && c.Before.Provider.Name != c.Next.Provider.Name {
		if err := ensure(ctx, c.Before, nil, why); err != nil {
			return err
		}
	}
	return ensure(ctx, c.Next, managed(c.Next), why)
}

// Restore has what served before a change that failed, and no more.
func (c functionChange) Restore(ctx workflow.Context) error {
	return ensure(ctx, c.Next, c.before(), "take back what was created")
}

// deleteFunctions deletes all functions of what served.
func deleteFunctions(ctx workflow.Context, served *functions.Deployment) error {
	return ensure(ctx, served, nil, "delete all functions")
}

// before is what serves at the provider of the next plan.
func (c functionChange) before() []functions.Managed {
	if c.Before == nil || c.Next == nil || c.Before.Provider.Name != c.Next.Provider.Name {
		return nil
	}
	return managed(c.Before)
}

func managed(d *functions.Deployment) []functions.Managed {
	if d == nil || !d.Provider.Manage {
		return nil
	}
	return d.Managed()
}

// ensure brings a provider to what is wanted; nothing is done for functions that nobody
// manages.
func ensure(ctx workflow.Context, of *functions.Deployment, want []functions.Managed, why string) error {
	if of == nil || !of.Provider.Manage {
		return nil
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: activities.ControlQueue, StartToCloseTimeout: attemptTimeout, HeartbeatTimeout: silence,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
		Summary:     fmt.Sprintf("have provider %s %s", of.Provider.Name, why),
	})
	in := activities.ManageInput{Provider: of.Provider, Function: of.Function.Name, Want: want}
	var a *activities.Functions
	return workflow.ExecuteActivity(ctx, a.ManageFunctions, in).Get(ctx, nil)
}
