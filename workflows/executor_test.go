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
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows/profiling"
)

func quietEnv() *testsuite.TestWorkflowEnvironment {
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
			env := quietEnv()
			env.RegisterWorkflowWithOptions(Executor, workflow.RegisterOptions{Name: TypeExecutor})
			env.RegisterActivityWithOptions(func(ctx context.Context, _ executors.Task) (activities.ExecutorResult, error) {
				attempts++
				return c.run(ctx)
			}, activity.RegisterOptions{Name: "RunExecutor"})
			var got ExecutorEnded
			env.OnSignalExternalWorkflow(mock.Anything, "pipeline/traffic", "", SignalExecutorEnded, mock.Anything).
				Return(func(_, _, _, _ string, arg any) error { got = arg.(ExecutorEnded); return nil })
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
	env := quietEnv()
	env.RegisterWorkflowWithOptions(Executor, workflow.RegisterOptions{Name: TypeExecutor})
	var attempts atomic.Int32
	env.RegisterActivityWithOptions(func(ctx context.Context, _ executors.Task) (activities.ExecutorResult, error) {
		if attempts.Add(1) == 3*executorAttempts {
			return activities.ExecutorResult{Reason: "drained by the gateway"}, nil
		}
		env.SignalWorkflow(signalHostRestarted, nil)
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
	env := quietEnv()
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

func TestProfileMeasuresEveryKind(t *testing.T) {
	w := newWorld(1)
	gpu := placement.Device{Host: "two", Name: "gpu/0", Hardware: "gpu"}
	w.fleet.Hosts = append(w.fleet.Hosts, activities.HostInfo{Name: "two", Devices: []placement.Device{gpu}})
	spec := traffic(20)
	spec.Hardware = append(spec.Hardware, spec.Hardware[0], spec.Hardware[0])
	spec.Hardware[1].Name, spec.Hardware[2].Name = "gpu", "absent"
	spec.Pipeline.Modules[1].Profile.Points, spec.Pipeline.Modules[1].Hardware = nil, []string{"gpu"}
	env := quietEnv()
	w.register(env)
	env.ExecuteWorkflow(profiling.TypeProfile, profiling.Request{Service: "pipeline/traffic", Pipeline: *spec.Pipeline, Hardware: spec.Hardware})
	var reply profiling.Reply
	require.NoError(t, env.GetWorkflowResult(&reply))
	assert.ElementsMatch(t, []string{"detect@cpu", "detect@gpu", "vehicle@gpu"}, w.profiled)
	assert.Equal(t, append(points("cpu"), points("gpu")...), reply.Points["detect"])
	assert.Equal(t, points("gpu"), reply.Points["vehicle"])
}

func TestChangeDescribe(t *testing.T) {
	for want, c := range map[string]Change{
		"rate 10/s: cost 0.12 per hour":                                          {ToRate: 10, ToCost: 0.12, First: true},
		"rate 10/s -> 25/s: cost 0.12 -> 0.2 per hour, costs 0.08 more per hour": {FromRate: 10, ToRate: 25, FromCost: 0.12, ToCost: 0.2},
		"rate 25/s -> 10/s: cost 0.2 -> 0.12 per hour, saves 0.08 per hour":      {FromRate: 25, ToRate: 10, FromCost: 0.2, ToCost: 0.12},
		"rate 10/s -> 11/s: cost 0.2 per hour, no change in cost":                {FromRate: 10, ToRate: 11, FromCost: 0.2, ToCost: 0.2},
		"rate 10/s, SLO 400 ms -> 150 ms: cost 0.2 per hour, no change in cost": {
			FromRate: 10, ToRate: 10, FromCost: 0.2, ToCost: 0.2, FromSLO: 400 * time.Millisecond, ToSLO: 150 * time.Millisecond,
		},
	} {
		assert.Equal(t, want, c.Describe())
	}
}

func TestRoundUp(t *testing.T) {
	for in, want := range map[float64]float64{61: 61, 61.2: 62, 0.123: 0.13, 1234: 1300, 9.96: 10} {
		assert.InDelta(t, want, autoscale.RoundUp(in), 1e-9, in)
	}
}
