package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

const (
	forever = 10 * 365 * 24 * time.Hour // an activity needs some bound

	// hostPatience is how long work may wait for its host to take it before
	// the host counts as gone.
	hostPatience = 30 * time.Second

	// returnTime is how long members of the fleet may take to ask for work again
	// after the server was away: their clients wait up to ten seconds between two
	// attempts.
	returnTime = 15 * time.Second
)

// shortActivity are the options of activities that only compute or ask.
func shortActivity(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           activities.ControlQueue,
		StartToCloseTimeout: time.Minute,
		RetryPolicy:         &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 10 * time.Second, MaximumAttempts: 10},
		Summary:             summary,
	})
}
