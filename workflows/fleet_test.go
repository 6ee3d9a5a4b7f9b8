package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	"github.com/harpagon/harpagon/scheduler/placement"
)

func quietFleet() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // other load may stop a test for a second
	env.SetDetachedChildWait(false)
	return env
}

// fleetRig runs the fleet workflow with host workflows that wait.
type fleetRig struct {
	*testsuite.TestWorkflowEnvironment
	told    []string
	started int
	updates int
	silent  []string      // hosts that were signalled as lost, and why
	answer  func() error  // of a host that is checked; nil where none is
	takes   time.Duration // it to answer
	noPause bool          // its control is of an earlier version
}

func newFleetRig() *fleetRig {
	r := &fleetRig{TestWorkflowEnvironment: quietFleet()}
	r.RegisterWorkflowWithOptions(Fleet, workflow.RegisterOptions{Name: TypeFleet})
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, in HostInput) error {
		r.started++
		workflow.Go(ctx, func(ctx workflow.Context) {
			why := ""
			workflow.GetSignalChannel(ctx, signalSilent).Receive(ctx, &why)
			r.silent = append(r.silent, in.Info.Name+" "+why)
		})
		return workflow.Await(ctx, func() bool { return false })
	}, workflow.RegisterOptions{Name: TypeHost})
	r.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ MemberInput) error {
		return workflow.Await(ctx, func() bool { return false })
	}, workflow.RegisterOptions{Name: TypeMember})
	r.RegisterActivityWithOptions(func(context.Context) error { return r.answer() }, activity.RegisterOptions{Name: "Answer"})
	r.RegisterActivityWithOptions(func(context.Context, time.Duration) error { return nil }, activity.RegisterOptions{Name: "Pause"})
	r.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, id, _, name string, arg any) error {
			r.told = append(r.told, fmt.Sprint(id, " ", name, " ", arg))
			return nil
		}).Maybe()
	return r
}

// answered has hosts that are checked answer, and waits end, in their time. No activity can be registered after it.
func (r *fleetRig) answered() {
	r.OnActivity("Answer", mock.Anything).Return(func(context.Context) error { return r.answer() }).
		AfterFn(func() time.Duration { return r.takes }).Maybe()
	r.OnActivity("Pause", mock.Anything, answerWithin).Return(func(context.Context, time.Duration) error {
		if r.noPause {
			return errors.New("no activity of that name")
		}
		return nil
	}).AfterFn(func() time.Duration {
		if r.noPause {
			return 0
		}
		return answerWithin
	}).Maybe()
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
	at(1, func() { joined = r.update(activities.FleetJoin, fleetHost("one", 2)) })
	at(2, func() {
		require.NoError(t, joined.err)
		assert.Equal(t, 2, len(joined.view.Devices()))
		assert.Equal(t, 1, r.started)
		assert.Equal(t, []string{"pipeline/traffic fleet-changed {[one] [] [] [] [] false [] [] false false}"}, r.told)
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
		assert.Equal(t, "pipeline/traffic fleet-changed {[] [one] [] [] [] false [] [] false false}", r.told[len(r.told)-1])
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
	require.NoError(t, fleetPayloads(again, &state))
	assert.Empty(t, state.Hosts)
	assert.Equal(t, slots, state.Reserved["pipeline/traffic"])
	assert.Equal(t, map[string]bool{"pipeline/traffic": true, "pool/other": true}, state.Watching)
}

// TestReservationsAtOnce: what was chosen before a device changed is refused, whatever
// changed elsewhere meanwhile is not, and a fleet that continues as new keeps since when.
func TestReservationsAtOnce(t *testing.T) {
	slot := func(host, device string) placement.Slot {
		return placement.Slot{Executor: "e", Module: "m", Host: host, Device: device, Share: 0.5}
	}
	reserve := func(r *fleetRig, service string, version int, slots ...placement.Slot) *fleetReply {
		return r.update(activities.FleetReserve, activities.Reservation{Service: service, Version: version, Slots: slots})
	}
	r := newFleetRig()
	at := func(n int, f func()) { r.RegisterDelayedCallback(f, time.Duration(n)*time.Second) }
	replies := map[string]*fleetReply{}
	var seen int
	var joined *fleetReply
	at(0, func() {
		r.update(activities.FleetJoin, fleetHost("one", 4))
		r.update(activities.FleetJoin, fleetHost("two", 2))
		joined = r.update(activities.FleetJoin, fleetHost("three", 1))
	})
	at(1, func() {
		seen = joined.view.Version
		replies["first"] = reserve(r, "pipeline/a", seen, slot("one", "cpu/0"), slot("one", "cpu/1"))
		replies["elsewhere"] = reserve(r, "pipeline/b", seen, slot("one", "cpu/2"), slot("two", "cpu/0"))
		replies["the same device"] = reserve(r, "pipeline/c", seen, slot("one", "cpu/3"), slot("one", "cpu/1"))
	})
	at(2, func() {
		assert.NoError(t, replies["first"].err)
		assert.NoError(t, replies["elsewhere"].err, "its devices are as they were")
		assert.ErrorContains(t, replies["the same device"].err, "reserved of device cpu/1 of host one")
		replies["given back"] = reserve(r, "pipeline/a", replies["first"].view.Version, slot("one", "cpu/0"))
		replies["given back meanwhile"] = reserve(r, "pipeline/c", replies["elsewhere"].view.Version, slot("one", "cpu/1"))
		r.update(activities.FleetJoin, fleetHost("two", 2))
		replies["another process of the host"] = reserve(r, "pipeline/c", replies["elsewhere"].view.Version, slot("two", "cpu/1"))
	})
	at(3, func() {
		r.SetContinueAsNewSuggested(true)
		r.SignalWorkflow(signalHostLost, hostLost{Name: "three", Incarnation: 99})
	})
	r.ExecuteWorkflow(TypeFleet, nil)
	assert.NoError(t, replies["given back"].err)
	assert.ErrorContains(t, replies["given back meanwhile"].err, "device cpu/1 of host one")
	assert.ErrorContains(t, replies["another process of the host"].err, "host two has left, or joined again")
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, r.GetWorkflowError(), &again)
	var state *FleetState
	require.NoError(t, fleetPayloads(again, &state))
	assert.Equal(t, []string{"pipeline/a", "pipeline/b"}, slices.Sorted(maps.Keys(state.Reserved)))
	assert.Equal(t, []string{"one", "two"}, slices.Sorted(maps.Keys(state.Touched)), "of a host that is gone nothing is kept")

	next := newFleetRig()
	var stale, fresh *fleetReply
	next.RegisterDelayedCallback(func() {
		stale = reserve(next, "pipeline/c", seen, slot("one", "cpu/2"))
		fresh = reserve(next, "pipeline/c", seen, slot("one", "cpu/3"))
	}, time.Second)
	next.RegisterDelayedCallback(func() {
		next.SetContinueAsNewSuggested(true)
		next.SignalWorkflow(signalHostLost, hostLost{Name: "unknown"})
	}, 2*time.Second)
	next.ExecuteWorkflow(TypeFleet, state)
	assert.Error(t, stale.err)
	assert.NoError(t, fresh.err)
}

// TestAFleetsHostThatLeaves: nothing is placed there any more, services are notified once,
// and when it has gone none has lost anything.
func TestAFleetsHostThatLeaves(t *testing.T) {
	r := newFleetRig()
	at := func(n int, f func()) { r.RegisterDelayedCallback(f, time.Duration(n)*time.Second) }
	slot := func(host string) placement.Slot {
		return placement.Slot{Executor: "e", Pipeline: "traffic", Module: "detect", Hardware: "cpu", Host: host, Device: "cpu/0", Share: 0.5}
	}
	var first, again, late, back *fleetReply
	var before int
	at(0, func() {
		r.update(activities.FleetWatch, "pipeline/traffic")
		r.update(activities.FleetJoin, fleetHost("one", 1))
		r.update(activities.FleetJoin, fleetHost("two", 1))
	})
	at(1, func() {
		r.update(activities.FleetReserve, activities.Reservation{Service: "pipeline/traffic", Slots: []placement.Slot{slot("one"), slot("two")}})
	})
	at(2, func() {
		first = r.update(activities.FleetLeave, "one")
		again = r.update(activities.FleetLeave, "one")
		r.update(activities.FleetLeave, "unknown")
	})
	at(3, func() {
		assert.Equal(t, "pipeline/traffic fleet-changed {[] [] [] [one] [] false [] [] false false}", r.told[len(r.told)-1])
		before = len(r.told)
		assert.Equal(t, first.view.Version, again.view.Version, "it has announced that already")
		assert.Equal(t, []string{"one"}, first.view.Leaving())
		assert.Equal(t, "two", first.view.Nearest()[0])
		other := first.view.For("pool/other")
		assert.Equal(t, []placement.Device{{Host: "two", Name: "cpu/0", Hardware: "cpu"}}, other.Devices)
		assert.Equal(t, []placement.Slot{slot("two")}, other.Held, "what is held where nothing is offered takes nothing away")
		assert.True(t, first.view.Uses("one"))
		late = r.update(activities.FleetReserve, activities.Reservation{Service: "pool/other", Version: first.view.Version - 1, Slots: []placement.Slot{slot("one")}})
	})
	at(4, func() {
		assert.Error(t, late.err, "chosen from what was there before")
		r.update(activities.FleetReserve, activities.Reservation{Service: "pipeline/traffic", Slots: []placement.Slot{slot("two")}})
		r.SignalWorkflow(signalHostLost, hostLost{Name: "one", Incarnation: 99, Reason: "left"})
	})
	at(5, func() {
		assert.Equal(t, []string{"pipeline/traffic fleet-changed {[] [one] [one] [] [] false [] [] false false}"}, r.told[before:])
		back = r.update(activities.FleetJoin, fleetHost("one", 1))
	})
	at(6, func() {
		assert.Empty(t, back.view.Leaving(), "a new process of that name stays")
		r.SetContinueAsNewSuggested(true)
		r.SignalWorkflow(signalHostLost, hostLost{Name: "unknown"})
	})
	r.ExecuteWorkflow(TypeFleet, nil)
}

// TestFleetReportsRestarts holds that services are notified when a host's process is
// another.
func TestFleetReportsRestarts(t *testing.T) {
	r := newFleetRig()
	at := func(n int, f func()) { r.RegisterDelayedCallback(f, time.Duration(n)*time.Second) }
	join := func(instance string) func() {
		h := fleetHost("one", 2)
		h.Instance = instance
		return func() { r.update(activities.FleetJoin, h) }
	}
	at(0, func() { r.update(activities.FleetWatch, "pipeline/traffic") })
	at(1, join("first"))
	at(2, join("first"))
	at(3, join("second"))
	at(4, func() {
		const joined = "pipeline/traffic fleet-changed {[one] [] [] [] %s false [] [] false false}"
		assert.Equal(t, []string{fmt.Sprintf(joined, "[]"), fmt.Sprintf(joined, "[]"), fmt.Sprintf(joined, "[one]")}, r.told)
		r.SetContinueAsNewSuggested(true)
		r.SignalWorkflow(signalHostLost, hostLost{Name: "unknown"})
	})
	r.ExecuteWorkflow(TypeFleet, nil)
	require.ErrorAs(t, r.GetWorkflowError(), new(*workflow.ContinueAsNewError))
}

// TestFleetGoesOnWhenPeopleEndIt: its own workflow, and one that holds a host.
func TestFleetGoesOnWhenPeopleEndIt(t *testing.T) {
	r := newFleetRig()
	at := func(n int, f func()) { r.RegisterDelayedCallback(f, time.Duration(n)*time.Second) }
	at(1, func() { r.update(activities.FleetJoin, fleetHost("one", 2)) })
	at(2, func() { r.SignalWorkflow(signalHostLost, hostLost{Name: "one", Incarnation: 99, Reason: cancelled}) })
	at(3, r.CancelWorkflow)
	r.ExecuteWorkflow(TypeFleet, nil)
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, r.GetWorkflowError(), &next)
	var state FleetState
	require.NoError(t, fleetPayloads(next, &state))
	assert.Contains(t, state.Hosts, "one")
}

func TestHostTellsTheFleet(t *testing.T) {
	for name, end := range map[string]error{
		"left":   nil,
		"silent": temporal.NewNonRetryableApplicationError("silent", activities.TypeFenced, nil),
	} {
		t.Run(name, func(t *testing.T) {
			env := quietFleet()
			env.RegisterWorkflowWithOptions(Host, workflow.RegisterOptions{Name: TypeHost})
			env.RegisterActivityWithOptions(func(context.Context, activities.HostInfo) error { return end }, activity.RegisterOptions{Name: "HoldHost"})
			env.OnSignalExternalWorkflow(mock.Anything, activities.FleetID, "", signalHostLost, hostLost{Name: "one", Incarnation: 3, Reason: name}).Return(nil).Once()
			env.ExecuteWorkflow(TypeHost, HostInput{Info: fleetHost("one", 1), Incarnation: 3})
			require.NoError(t, env.GetWorkflowError())
			env.AssertExpectations(t)
		})
	}
}

// fleetHost is a host with so many cores.
func fleetHost(name string, devices int) activities.HostInfo {
	h := activities.HostInfo{Name: name}
	for i := range devices {
		h.Devices = append(h.Devices, placement.Device{Host: name, Name: fmt.Sprint("cpu/", i), Hardware: "cpu"})
	}
	return h
}

func fleetPayloads(e *workflow.ContinueAsNewError, into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(e.Input, into)
}
