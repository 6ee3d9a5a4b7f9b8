package workflows

import (
	"cmp"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
)

// TypeExecutor is the type of the workflow.
const TypeExecutor = "executor"

// Signals.
const (
	SignalExecutorEnded = "executor-ended" // to the service: executorEnded
	SignalHostRestarted = "host-restarted" // to an executor: what ran on its host is gone
)

// executorEnded notifies a service that an executor has ended.
type executorEnded struct {
	Workflow string
	Executor string
	Reason   string
}

// ExecutorInput is the input of the executor workflow.
type ExecutorInput struct {
	Service          string // ID of its workflow
	Task             executors.Task
	HeartbeatTimeout time.Duration // 0 means activities.DefaultHeartbeatTimeout
}

// executorAttempts bounds how often an executor that fails is started over on its device
// before its service plans again. That its host was killed or away is no failure of its.
const executorAttempts = 8

// patchSilent marks workflows that start an executor over as soon as its host has been
// silent for too long; older ones wait for longer each time.
const patchSilent = "silent hosts at once"

// Executor owns one executor. It ends when the executor is cancelled, which
// drains it, when the gateway has drained it, or when it cannot run on its
// host; it then notifies its service.
func Executor(ctx workflow.Context, in ExecutorInput) (activities.ExecutorResult, error) {
	slot := in.Task.Slot
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              activities.HostQueue(slot.Host),
		StartToCloseTimeout:    Forever,
		ScheduleToStartTimeout: HostPatience,
		HeartbeatTimeout:       cmp.Or(in.HeartbeatTimeout, activities.DefaultHeartbeatTimeout),
		WaitForCancellation:    true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
			MaximumAttempts: executorAttempts, NonRetryableErrorTypes: []string{"TemporalTimeout:" + enumspb.TIMEOUT_TYPE_HEARTBEAT.String()},
		},
		Summary: "run " + slot.Describe(),
	})
	workflow.SetCurrentDetails(ctx, "Runs **"+slot.Module+"** on `"+slot.Host+"/"+slot.Device+"`. To cancel this workflow drains the executor.")
	result, err := run(ctx, in.Task)
	if ctx.Err() != nil {
		return result, nil // cancelled, which is how a service ends an executor
	}
	end := executorEnded{Workflow: workflow.GetInfo(ctx).WorkflowExecution.ID, Executor: slot.Executor, Reason: result.Reason}
	if err != nil {
		end.Reason = activities.Reason(err)
	}
	if gone := workflow.SignalExternalWorkflow(ctx, in.Service, "", SignalExecutorEnded, end).Get(ctx, nil); gone != nil {
		workflow.GetLogger(ctx).Info("the service is gone", "service", in.Service, "error", gone)
	}
	return result, err
}

// run runs the executor on its host until it ends, and starts it over at once when the
// host's process is another or has been silent. Should the one before run still, the
// attempt takes it over as it is.
func run(ctx workflow.Context, task executors.Task) (result activities.ExecutorResult, err error) {
	restarts := workflow.GetSignalChannel(ctx, SignalHostRestarted)
	for again := true; again; {
		attempt, leave := workflow.WithCancel(ctx)
		var host *activities.Host
		end := workflow.ExecuteActivity(attempt, host.RunExecutor, task)
		s := workflow.NewSelector(ctx)
		s.AddFuture(end, func(end workflow.Future) {
			err = end.Get(ctx, &result)
			var silent *temporal.TimeoutError
			again = ctx.Err() == nil && errors.As(err, &silent) && silent.TimeoutType() == enumspb.TIMEOUT_TYPE_HEARTBEAT &&
				workflow.GetVersion(ctx, patchSilent, workflow.DefaultVersion, 1) != workflow.DefaultVersion
		})
		s.AddReceive(restarts, func(restarts workflow.ReceiveChannel, _ bool) {
			for restarts.ReceiveAsync(nil) {
			}
			leave()
		})
		s.Select(ctx)
	}
	return result, err
}
