package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// HostInput is the input of the host workflow.
type HostInput struct {
	Info             activities.HostInfo
	Incarnation      int
	HeartbeatTimeout time.Duration // 0 means activities.DefaultHeartbeatTimeout
}

// Host keeps a host in the fleet: its hold activity heartbeats from the host
// itself. When the heartbeats stop, the activity is offered to the host again;
// when nobody takes it for a while the host is gone, and the fleet is told.
func Host(ctx workflow.Context, in HostInput) error {
	timeout := cmp.Or(in.HeartbeatTimeout, activities.DefaultHeartbeatTimeout)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              activities.HostQueue(in.Info.Name),
		StartToCloseTimeout:    forever,
		ScheduleToStartTimeout: timeout + returnTime,
		HeartbeatTimeout:       timeout,
		WaitForCancellation:    true,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 5 * time.Second},
		Summary:                "hold host " + in.Info.Name,
	})
	var host *activities.Host
	lost := hostLost{Name: in.Info.Name, Incarnation: in.Incarnation, Reason: "left"}
	if err := workflow.ExecuteActivity(ctx, host.HoldHost, in.Info).Get(ctx, nil); err != nil {
		lost.Reason = reason(err)
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.SignalExternalWorkflow(ctx, activities.FleetID, "", signalHostLost, lost).Get(ctx, nil)
}
