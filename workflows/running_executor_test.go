package workflows

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/scheduler/placement"
)

func quietExecutor() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // other load may stop a test for a second
	env.SetDetachedChildWait(false)
	return env
}

func TestExecutor(t *testing.T) {
	in := ExecutorInput{Service: "pipeline/traffic", Task: executors.Task{Slot: placement.Slot{Executor: "traffic/detect@one/cpu/0", Pipeline: "traffic", Module: "detect", Host: "one", Device: "cpu/0"}}}
	attempts := 0
	for _, c := range []struct {
		name     string
		run      func(ctx context.Context) (activities.ExecutorResult, error)
		attempts int
		reason   string
		fails    bool
	}{
		{"drained", func(context.Context) (activities.ExecutorResult, error) {
			return activities.ExecutorResult{Reason: "drained by the gateway"}, nil
		}, 1, "drained by the gateway", false},
		{"broken", func(context.Context) (activities.ExecutorResult, error) {
			return activities.ExecutorResult{}, fmt.Errorf("no memory")
		}, executorAttempts, "no memory", true},
		{"fenced once", func(context.Context) (activities.ExecutorResult, error) {
			if attempts == 1 {
				return activities.ExecutorResult{}, temporal.NewApplicationError("fenced", activities.TypeFenced)
			}
			return activities.ExecutorResult{Reason: "drained by the gateway"}, nil
		}, 2, "drained by the gateway", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempts = 0
			env := quietExecutor()
			env.RegisterWorkflowWithOptions(Executor, workflow.RegisterOptions{Name: TypeExecutor})
			env.RegisterActivityWithOptions(func(ctx context.Context, _ executors.Task) (activities.ExecutorResult, error) {
				attempts++
				return c.run(ctx)
			}, activity.RegisterOptions{Name: "RunExecutor"})
			var got executorEnded
			env.OnSignalExternalWorkflow(mock.Anything, "pipeline/traffic", "", SignalExecutorEnded, mock.Anything).
				Return(func(_, _, _, _ string, arg any) error { got = arg.(executorEnded); return nil })
			env.ExecuteWorkflow(TypeExecutor, in)
			assert.Equal(t, c.attempts, attempts)
			assert.Equal(t, c.reason, got.Reason)
			assert.Equal(t, c.fails, env.GetWorkflowError() != nil)
		})
	}
}

// TestExecutorIsStartedOver holds that an executor is run again at once, and as often as
// it takes, when its host's process is another.
func TestExecutorIsStartedOver(t *testing.T) {
	env := quietExecutor()
	env.RegisterWorkflowWithOptions(Executor, workflow.RegisterOptions{Name: TypeExecutor})
	var attempts atomic.Int32
	env.RegisterActivityWithOptions(func(ctx context.Context, _ executors.Task) (activities.ExecutorResult, error) {
		if attempts.Add(1) == 3*executorAttempts {
			return activities.ExecutorResult{Reason: "drained by the gateway"}, nil
		}
		env.SignalWorkflow(SignalHostRestarted, nil)
		for ctx.Err() == nil { // until it is left
			activity.RecordHeartbeat(ctx)
			time.Sleep(time.Millisecond)
		}
		return activities.ExecutorResult{}, ctx.Err()
	}, activity.RegisterOptions{Name: "RunExecutor"})
	env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, "", SignalExecutorEnded, mock.Anything).Return(nil)
	env.ExecuteWorkflow(TypeExecutor, ExecutorInput{Service: "pipeline/traffic"})
	require.NoError(t, env.GetWorkflowError())
	assert.EqualValues(t, 3*executorAttempts, attempts.Load())
}

func TestExecutorCancelledTellsNobody(t *testing.T) {
	env := quietExecutor()
	env.RegisterWorkflowWithOptions(Executor, workflow.RegisterOptions{Name: TypeExecutor})
	env.RegisterActivityWithOptions(func(ctx context.Context, _ executors.Task) (activities.ExecutorResult, error) {
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx)
			time.Sleep(time.Millisecond)
		}
		return activities.ExecutorResult{Reason: "cancelled"}, nil
	}, activity.RegisterOptions{Name: "RunExecutor"})
	env.SetOnActivityStartedListener(func(*activity.Info, context.Context, converter.EncodedValues) { env.CancelWorkflow() })
	env.ExecuteWorkflow(TypeExecutor, ExecutorInput{})
	require.NoError(t, env.GetWorkflowError())
}
