package workflows

import (
	"time"

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
// itself. When nobody takes it for a while the host is gone, and the fleet is told.
func Host(ctx workflow.Context, in HostInput) error {
	var host *activities.Host
	lost := hostLost{Name: in.Info.Name, Incarnation: in.Incarnation}
	lost.Reason = hold(ctx, activities.HostQueue(in.Info.Name), in.HeartbeatTimeout, ReturnTime, "host "+in.Info.Name, host.HoldHost, in.Info)
	if ctx.Err() != nil {
		lost.Reason = cancelled
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	return workflow.SignalExternalWorkflow(ctx, activities.FleetID, "", signalHostLost, lost).Get(ctx, nil)
}
