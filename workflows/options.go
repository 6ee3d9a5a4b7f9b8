package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// fleetOptions are the options of activities that ask or tell the fleet's workflow, which takes
// milliseconds: what was lost with the control that ran it is soon asked again.
func fleetOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithStartToCloseTimeout(shortOptions(ctx, summary), 20*time.Second)
}

// shortOptions are the options of activities that only compute.
func shortOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.ControlQueue,
		StartToCloseTimeout: time.Minute,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 10 * time.Second, MaximumAttempts: 10},
		Summary:             summary,
	})
}

const (
	// planTimeout bounds the search for a plan; the best that was found by then
	// is taken.
	planTimeout = 10 * time.Minute

	// planSilence is how long the search may say nothing before somebody else makes
	// it: it uses the whole processor, and what tells of it may have to wait.
	planSilence = 30 * time.Second
)

// planOptions are those of a search for a plan.
func planOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.ControlQueue,
		StartToCloseTimeout: planTimeout,
		HeartbeatTimeout:    planSilence,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumAttempts: 3},
		Summary:             summary,
	})
}
