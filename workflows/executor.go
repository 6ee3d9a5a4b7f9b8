package workflows

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/workflows/fleet"
)

// ExecutorInput is the input of the executor workflow.
type ExecutorInput struct {
	Service          string // ID of its workflow
	Task             executors.Task
	HeartbeatTimeout time.Duration // 0 means activities.DefaultHeartbeatTimeout
}

// executorAttempts bounds how often an executor is started over on its device
// before its service plans anew.
const executorAttempts = 8

// Executor owns one executor. It ends when the executor is cancelled, which
// drains it, when the gateway has drained it, or when it cannot run on its
// host; it then tells its service.
func Executor(ctx workflow.Context, in ExecutorInput) (activities.ExecutorResult, error) {
	slot := in.Task.Slot
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              activities.HostQueue(slot.Host),
		StartToCloseTimeout:    fleet.Forever,
		ScheduleToStartTimeout: fleet.HostPatience,
		HeartbeatTimeout:       cmp.Or(in.HeartbeatTimeout, activities.DefaultHeartbeatTimeout),
		WaitForCancellation:    true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
			MaximumAttempts: executorAttempts,
		},
		Summary: "run " + slot.Describe(),
	})
	workflow.SetCurrentDetails(ctx, "Runs **"+slot.Module+"** on `"+slot.Host+"/"+slot.Device+"`. To cancel this workflow drains the executor.")
	var host *activities.Host
	var result activities.ExecutorResult
	err := workflow.ExecuteActivity(ctx, host.RunExecutor, in.Task).Get(ctx, &result)
	if ctx.Err() != nil {
		return result, nil // cancelled, which is how a service ends an executor
	}
	end := ExecutorEnded{Workflow: workflow.GetInfo(ctx).WorkflowExecution.ID, Executor: slot.Executor, Reason: result.Reason}
	if err != nil {
		end.Reason = activities.Reason(err)
	}
	if gone := workflow.SignalExternalWorkflow(ctx, in.Service, "", SignalExecutorEnded, end).Get(ctx, nil); gone != nil {
		workflow.GetLogger(ctx).Info("the service is gone", "service", in.Service, "error", gone)
	}
	return result, err
}
