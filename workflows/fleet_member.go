package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
)

// MemberInput is the input of the member workflow.
type MemberInput struct {
	Member           activities.Member
	HeartbeatTimeout time.Duration // 0 means activities.DefaultHeartbeatTimeout
}

// memberLost is what a member workflow tells the fleet at its end.
type memberLost struct {
	Member activities.Member
	Reason string
}

// Member keeps a gateway or a dispatcher in the fleet for as long as it heartbeats.
// To cancel it is to tell the process that another has taken its name.
func Member(ctx workflow.Context, in MemberInput) error {
	m := in.Member
	var gateway *activities.GatewayActivities
	why := hold(ctx, m.Queue(), in.HeartbeatTimeout, 0, string(m.Kind)+" "+m.Name, gateway.HoldMember, m)
	if ctx.Err() != nil {
		why = cancelled
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.SignalExternalWorkflow(ctx, activities.FleetID, "", signalMemberLost, memberLost{m, why}).Get(ctx, nil)
}

// hold runs the activity that holds a member of the fleet until it leaves or is
// lost, and says why. When its heartbeats stop, the activity is offered to it again;
// when it does not take it for the heartbeat timeout, and patience longer, it is gone. So
// is one that the fleet has asked in vain: should it go on, its next heartbeat tells it.
func hold(ctx workflow.Context, queue string, timeout, patience time.Duration, what string, activity, arg any) string {
	if timeout <= 0 {
		timeout = activities.DefaultHeartbeatTimeout
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              queue,
		StartToCloseTimeout:    Forever,
		ScheduleToStartTimeout: timeout + patience,
		HeartbeatTimeout:       timeout,
		WaitForCancellation:    true,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: time.Second, MaximumInterval: 5 * time.Second},
		Summary:                "hold " + what,
	})
	why := "left"
	workflow.NewSelector(ctx).AddFuture(workflow.ExecuteActivity(ctx, activity, arg), func(end workflow.Future) {
		if err := end.Get(ctx, nil); err != nil {
			why = activities.Reason(err)
		}
	}).AddReceive(workflow.GetSignalChannel(ctx, signalSilent), func(silent workflow.ReceiveChannel, _ bool) {
		silent.Receive(ctx, &why)
	}).Select(ctx)
	return why
}
