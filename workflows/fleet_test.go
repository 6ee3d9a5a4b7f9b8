package workflows

import (
	"context"
	"fmt"
	"log/slog"
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
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/scheduler/placement"
)

func quietEnv() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetDetachedChildWait(false)
	return env
}

// fleetRig runs the fleet workflow with host workflows that wait.
type fleetRig struct {
	*testsuite.TestWorkflowEnvironment
	told    []string
	started int
	updates int
}

func newFleetRig() *fleetRig {
	r := &fleetRig{TestWorkflowEnvironment: quietEnv()}
	r.RegisterWorkflowWithOptions(Fleet, workflow.RegisterOptions{Name: TypeFleet})
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ HostInput) error {
		r.started++
		return workflow.Await(ctx, func() bool { return false })
	}, workflow.RegisterOptions{Name: TypeHost})
	r.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, id, _, name string, arg any) error {
			r.told = append(r.told, fmt.Sprint(id, " ", name, " ", arg))
			return nil
		}).Maybe()
	return r
}

func (r *fleetRig) update(name string, arg any) *fleetReply {
	got := &fleetReply{}
	r.updates++
	r.UpdateWorkflow(name, fmt.Sprint(name, r.updates), &testsuite.TestUpdateCallback{
		OnReject: func(err error) { got.err = err },
		OnAccept: func() {},
		OnComplete: func(v any, err error) {
			got.err = err
			got.view, _ = v.(activities.FleetView)
		},
	}, arg)
	return got
}

type fleetReply struct {
	view activities.FleetView
	err  error
}

func TestFleet(t *testing.T) {
	r := newFleetRig()
	var joined, reserved, late *fleetReply
	slots := []placement.Slot{{Executor: "e", Pipeline: "traffic", Module: "detect", Host: "one", Device: "cpu/0", Share: 0.5}}
	at := func(n int, f func()) { r.RegisterDelayedCallback(f, time.Duration(n)*time.Second) }
	at(0, func() { r.update(activities.FleetWatch, "pipeline/traffic") })
	at(1, func() { joined = r.update(activities.FleetJoin, host("one", 2)) })
	at(2, func() {
		require.NoError(t, joined.err)
		assert.Equal(t, 2, len(joined.view.Devices()))
		assert.Equal(t, 1, r.started)
		assert.Equal(t, []string{"pipeline/traffic fleet-changed {[one] [] false [] []}"}, r.told)
		reserved = r.update(activities.FleetReserve, activities.Reservation{Service: "pipeline/traffic", Version: joined.view.Version, Slots: slots})
		late = r.update(activities.FleetReserve, activities.Reservation{Service: "pool/other", Version: joined.view.Version, Slots: slots})
	})
	at(3, func() {
		require.NoError(t, reserved.err)
		assert.Equal(t, slots, reserved.view.For("pool/other").Held)
		var app *temporal.ApplicationError
		require.ErrorAs(t, late.err, &app)
		assert.Equal(t, activities.TypeConflict, app.Type())
		bad := r.update(activities.FleetJoin, activities.HostInfo{Name: "bad", Devices: []placement.Device{{Host: "other", Name: "cpu/0", Hardware: "cpu"}}})
		at(1, func() { assert.ErrorContains(t, bad.err, "must name its host") })
		r.SignalWorkflow(signalHostLost, hostLost{Name: "one", Incarnation: 0, Reason: "of a former life"})
	})
	at(5, func() {
		v, err := r.QueryWorkflow(activities.FleetDevices)
		require.NoError(t, err)
		var view activities.FleetView
		require.NoError(t, v.Get(&view))
		assert.Equal(t, 1, len(view.Hosts), "it has joined again since")
		r.SignalWorkflow(signalHostLost, hostLost{Name: "one", Incarnation: 99, Reason: "silent"})
	})
	at(6, func() {
		assert.Equal(t, "pipeline/traffic fleet-changed {[] [one] false [] []}", r.told[len(r.told)-1])
		r.update(activities.FleetWatch, "pool/other")
	})
	at(7, func() {
		r.SetContinueAsNewSuggested(true)
		r.SignalWorkflow(signalHostLost, hostLost{Name: "unknown"})
	})
	r.ExecuteWorkflow(TypeFleet, nil)
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, r.GetWorkflowError(), &again)
	var state *FleetState
	require.NoError(t, fromPayloads(again, &state))
	assert.Empty(t, state.Hosts)
	assert.Equal(t, slots, state.Reserved["pipeline/traffic"])
	assert.Equal(t, map[string]bool{"pipeline/traffic": true, "pool/other": true}, state.Watching)
}

func TestHostTellsTheFleet(t *testing.T) {
	for name, end := range map[string]error{
		"left":   nil,
		"silent": temporal.NewNonRetryableApplicationError("silent", activities.TypeFenced, nil),
	} {
		t.Run(name, func(t *testing.T) {
			env := quietEnv()
			env.RegisterWorkflowWithOptions(Host, workflow.RegisterOptions{Name: TypeHost})
			env.RegisterActivityWithOptions(func(context.Context, activities.HostInfo) error { return end }, activity.RegisterOptions{Name: "HoldHost"})
			env.OnSignalExternalWorkflow(mock.Anything, activities.FleetID, "", signalHostLost, hostLost{Name: "one", Incarnation: 3, Reason: name}).Return(nil).Once()
			env.ExecuteWorkflow(TypeHost, HostInput{Info: host("one", 1), Incarnation: 3})
			require.NoError(t, env.GetWorkflowError())
			env.AssertExpectations(t)
		})
	}
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
	env.ExecuteWorkflow(TypeProfile, ProfileRequest{Service: "pipeline/traffic", Pipeline: *spec.Pipeline, Hardware: spec.Hardware})
	var reply ProfileReply
	require.NoError(t, env.GetWorkflowResult(&reply))
	assert.ElementsMatch(t, []string{"detect@cpu", "detect@gpu", "vehicle@gpu"}, w.profiled)
	assert.Equal(t, append(points("cpu"), points("gpu")...), reply.Points["detect"])
	assert.Equal(t, points("gpu"), reply.Points["vehicle"])
}

func TestChangeDescribe(t *testing.T) {
	for want, c := range map[string]Change{
		"rate 10/s: cost 0.1200 per hour":                                               {ToRate: 10, ToCost: 0.12, First: true},
		"rate 10/s -> 25/s: cost 0.1200 -> 0.2000 per hour, costs 0.0800 more per hour": {FromRate: 10, ToRate: 25, FromCost: 0.12, ToCost: 0.2},
		"rate 25/s -> 10/s: cost 0.2000 -> 0.1200 per hour, saves 0.0800 per hour":      {FromRate: 25, ToRate: 10, FromCost: 0.2, ToCost: 0.12},
		"rate 10/s -> 11/s: cost 0.2000 per hour, no change in cost":                    {FromRate: 10, ToRate: 11, FromCost: 0.2, ToCost: 0.2},
		"rate 10/s, SLO 400ms -> 150ms: cost 0.2000 per hour, no change in cost": {
			FromRate: 10, ToRate: 10, FromCost: 0.2, ToCost: 0.2, FromSLO: 400 * time.Millisecond, ToSLO: 150 * time.Millisecond,
		},
	} {
		assert.Equal(t, want, c.Describe())
	}
}

func TestRoundUp(t *testing.T) {
	for in, want := range map[float64]float64{61: 61, 61.2: 62, 0.123: 0.13, 1234: 1300, 9.96: 10} {
		assert.InDelta(t, want, roundUp(in), 1e-9, in)
	}
}
