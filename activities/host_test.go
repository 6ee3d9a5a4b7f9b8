package activities

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

// *executors.Host does the work in production.
var _ Executors = (*executors.Host)(nil)

// fake runs executors until they are stopped and measures at once.
type fake struct {
	run      func(ctx context.Context, t executors.Task) error
	measured []int
	failAt   int // batch
}

func (f *fake) RunExecutor(ctx context.Context, t executors.Task, o executors.Observer) error {
	err := f.run(ctx, t)
	if o.Drained != nil && err == nil {
		o.Drained(executors.Status{Executor: t.Slot.Executor, Batches: 3, Items: 12})
	}
	return err
}

func (f *fake) Measure(_ context.Context, t executors.MeasureTask, from executors.Measured, tell func(executors.Measured)) ([]pipelines.Point, error) {
	var all []pipelines.Point
	for _, batch := range []int{1, 2, 4} {
		known := false
		for _, p := range from.Points {
			if p.Batch == batch && p.Hardware == t.Hardware {
				all, known = append(all, p), true
			}
		}
		if known {
			continue
		}
		if batch == f.failAt {
			return all, errors.New("the device fell off the bus")
		}
		f.measured = append(f.measured, batch)
		p := point(t.Hardware, batch)
		all = append(all, p)
		tell(executors.Measured{Points: all})
	}
	return all, nil
}

func (*fake) EngineFor(pipelines.Module) (executors.Engine, error) {
	return emulated.New(emulated.Options{}), nil
}
func (*fake) Fit(_ context.Context, t executors.MeasureTask) (executors.MeasureTask, error) {
	return t, nil
}
func (*fake) Status(string) (executors.Status, bool) { return executors.Status{}, false }

func point(hardware string, batch int) pipelines.Point {
	return pipelines.Point{Hardware: hardware, Batch: batch, Concurrency: 1, Duration: time.Duration(batch) * time.Millisecond}
}

func environment(h *Host) *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	RegisterHost(registry{env}, h)
	return env
}

// registry narrows a test environment to what RegisterHost needs.
type registry struct {
	*testsuite.TestActivityEnvironment
}

func (registry) RegisterDynamicActivity(any, activity.DynamicRegisterOptions) {}

func input() ProfileInput {
	return ProfileInput{
		Pipeline: pipelines.Pipeline{Name: "p", Modules: []pipelines.Module{{Name: "m", Fanout: 1, Batches: []int{1, 2, 4}}}},
		Module:   "m", Hardware: "cpu", Device: "cpu/0",
	}
}

// TestHeartbeatsTellWhatIsKept while it is being loaded, as the race detector sees.
func TestHeartbeatsTellWhatIsKept(t *testing.T) {
	h := &Host{Name: "one", Executors: &fake{}, Store: ProfileStore{Dir: t.TempDir()}, Machine: "a"}
	for range 20 {
		var suite testsuite.WorkflowTestSuite
		env := suite.NewTestWorkflowEnvironment()
		env.RegisterActivity(h.ProfileModule)
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour, HeartbeatTimeout: time.Minute})
			return workflow.ExecuteActivity(ctx, h.ProfileModule, input()).Get(ctx, nil)
		})
		require.NoError(t, env.GetWorkflowError())
	}
}

func TestProfileIsKeptAndReused(t *testing.T) {
	f := &fake{}
	h := &Host{Name: "one", Executors: f, Store: ProfileStore{Dir: t.TempDir()}, Machine: "a"}
	profile := func(in ProfileInput) (r ProfileResult) {
		v, err := environment(h).ExecuteActivity(h.ProfileModule, in)
		require.NoError(t, err)
		require.NoError(t, v.Get(&r))
		return r
	}
	first := profile(input())
	assert.Equal(t, 3, first.Measured)
	assert.Equal(t, []pipelines.Point{point("cpu", 1), point("cpu", 2), point("cpu", 4)}, first.Points)
	again := profile(input())
	assert.Equal(t, 0, again.Measured)
	assert.Equal(t, 3, again.Reused)
	assert.Equal(t, first.Points, again.Points)
	h.Machine = "b"
	assert.Equal(t, 3, profile(input()).Measured, "another machine")
	other := input()
	other.Pipeline.Modules[0].Function, other.Pipeline.Modules[0].Parameters = "crop", map[string]any{"size": 32.0}
	assert.Equal(t, 3, profile(other).Measured, "another model")
}

func TestProfileIsMeasuredAgain(t *testing.T) {
	f := &fake{}
	h := &Host{Name: "one", Executors: f, Store: ProfileStore{Dir: t.TempDir()}, Machine: "a"}
	in := input()
	for range 2 {
		f.measured = nil
		_, err := environment(h).ExecuteActivity(h.ProfileModule, in)
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2, 4}, f.measured)
		in.Again = true
	}
}

func TestProfileOfWhatServedIsKept(t *testing.T) {
	f := &fake{}
	h := &Host{Name: "one", Executors: f, Store: ProfileStore{Dir: t.TempDir()}, Machine: "a"}
	in := input()
	profile := func() (r ProfileResult) {
		v, err := environment(h).ExecuteActivity(h.ProfileModule, in)
		require.NoError(t, err)
		require.NoError(t, v.Get(&r))
		return r
	}
	profile()
	slower := point("cpu", 2)
	slower.Duration *= 3
	_, err := environment(h).ExecuteActivity(h.KeepProfile, KeepInput{Pipeline: in.Pipeline, Module: "m", Hardware: "cpu", Points: []pipelines.Point{slower, point("gpu", 1)}})
	require.NoError(t, err)
	assert.Equal(t, []pipelines.Point{point("cpu", 1), slower, point("cpu", 4)}, profile().Points)
}

func TestProfileResumesFromHeartbeat(t *testing.T) {
	f := &fake{failAt: 4}
	h := &Host{Name: "one", Executors: f}
	env := environment(h)
	var beats executors.Measured
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) { _ = details.Get(&beats) })
	_, err := env.ExecuteActivity(h.ProfileModule, input())
	require.ErrorContains(t, err, "fell off the bus")
	require.NotEmpty(t, beats.Points)
	for _, c := range []struct {
		name     string
		details  any
		measured []int
	}{
		{"of an attempt before", executors.Measured{Points: []pipelines.Point{point("cpu", 1), point("cpu", 2)}}, []int{4}},
		{"of an older version", []pipelines.Point{point("cpu", 1)}, []int{1, 2, 4}},
	} {
		f.failAt, f.measured = 0, nil
		env = environment(h)
		env.SetHeartbeatDetails(c.details)
		v, err := env.ExecuteActivity(h.ProfileModule, input())
		require.NoError(t, err)
		var r ProfileResult
		require.NoError(t, v.Get(&r))
		assert.Equal(t, c.measured, f.measured, c.name)
		assert.Equal(t, 3-len(c.measured), r.Reused)
		assert.Equal(t, 3, len(r.Points))
	}
}

func TestIdentify(t *testing.T) {
	h := &Host{Name: "one", Executors: &fake{}}
	m := pipelines.Module{Name: "m", Profile: pipelines.Profile{Points: []pipelines.Point{{MemoryMiB: 3}, {MemoryMiB: 2}}}}
	v, err := environment(h).ExecuteActivity(h.Identify, IdentifyInput{Modules: []pipelines.Module{m}})
	require.NoError(t, err)
	var got map[string]placement.ModuleEngine
	require.NoError(t, v.Get(&got))
	assert.Equal(t, "emulated", got["m"].Engine)
	assert.Contains(t, got["m"].Model, "sha256:")
	assert.Equal(t, int64(3<<20), got["m"].Memory)
}

// until blocks an executor until its context ends, then drains for a while.
func until(drain time.Duration) func(context.Context, executors.Task) error {
	return func(ctx context.Context, _ executors.Task) error {
		<-ctx.Done()
		time.Sleep(drain)
		return nil
	}
}

func TestExecutorOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		pulse  error
		stop   bool
		run    func(context.Context, executors.Task) error
		reason string
		kind   string
	}{
		{"drained by the gateway", nil, false, func(context.Context, executors.Task) error { return nil }, "drained by the gateway", ""},
		{"cancelled", temporal.NewCanceledError(), false, until(0), "cancelled", ""},
		{"paused", activity.ErrActivityPaused, false, until(0), "", "Interrupted"},
		{"reset", activity.ErrActivityReset, false, until(0), "", "Interrupted"},
		{"worker stops", nil, true, until(0), "", TypeStopping},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &Host{Name: "one", Executors: &fake{run: c.run}, Pulse: func(context.Context, []byte, any) error { return c.pulse }}
			env := environment(h)
			if c.stop {
				stop := make(chan struct{})
				close(stop)
				env.SetWorkerStopChannel(stop)
			}
			v, err := env.ExecuteActivity(h.RunExecutor, executors.Task{Slot: placement.Slot{Executor: "e"}})
			if c.kind != "" {
				var app *temporal.ApplicationError
				require.ErrorAs(t, err, &app)
				assert.Equal(t, c.kind, app.Type())
				assert.False(t, app.NonRetryable(), "it is to run again")
				return
			}
			require.NoError(t, err)
			var got ExecutorResult
			require.NoError(t, v.Get(&got))
			assert.Equal(t, ExecutorResult{Executor: "e", Reason: c.reason, Batches: 3, Items: 12}, got)
		})
	}
}

func TestALoadThatFailsIsNotRepeatedInVain(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		final bool
	}{
		"a bad model":  {&executors.LoadError{Module: "m", Err: errors.New("unknown operator Frobnicate")}, true},
		"a lost child": {&executors.LoadError{Module: "m", Err: wire.Errorf(wire.CodeUnavailable, "m", "the child ended")}, false},
		"another":      {errors.New("the stream broke"), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Host{Name: "one", Executors: &fake{run: func(context.Context, executors.Task) error { return c.err }}, Pulse: func(context.Context, []byte, any) error { return nil }}
			_, err := environment(h).ExecuteActivity(h.RunExecutor, executors.Task{Slot: placement.Slot{Executor: "e"}})
			var app *temporal.ApplicationError
			require.ErrorAs(t, err, &app)
			assert.Equal(t, c.final, app.NonRetryable())
			assert.Contains(t, app.Message(), c.err.Error())
			if c.final {
				assert.Equal(t, TypeLoad, app.Type())
			}
		})
	}
}

func TestALeaseLastsWhileTheServerIsAway(t *testing.T) {
	for name, hang := range map[string]bool{"refused at once": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				l := lease{timeout: 10 * time.Second, pulse: func(ctx context.Context) error {
					if away := time.Since(begin); away < 20*time.Second || away > 20*time.Minute {
						return nil
					}
					if hang {
						<-ctx.Done()
						return ctx.Err()
					}
					return errors.New("unreachable")
				}}
				work, _, release := l.hold(t.Context())
				time.Sleep(30 * time.Minute)
				assert.NoError(t, work.Err())
				release()
			})
		})
	}
}

// attempt makes one attempt of RunExecutor.
func attempt(h *Host, t executors.Task) (done chan error) {
	done = make(chan error, 1)
	env := environment(h)
	go func() {
		_, err := env.ExecuteActivity(h.RunExecutor, t)
		done <- err
	}()
	return done
}

func TestTheNextAttemptTakesOverWhatServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts, stops atomic.Int64
		var answer atomic.Pointer[error]
		say := func(err error) { answer.Store(&err) }
		say(nil)
		drain := make(chan struct{})
		h := &Host{Name: "one", Pulse: func(context.Context, []byte, any) error { return *answer.Load() }, Executors: &fake{run: func(ctx context.Context, _ executors.Task) error {
			starts.Add(1)
			defer stops.Add(1)
			select {
			case <-ctx.Done():
			case <-drain:
			}
			return nil
		}}}
		task := executors.Task{Slot: placement.Slot{Executor: "e"}}
		first := attempt(h, task)
		time.Sleep(time.Minute)
		say(errors.New("nobody answers"))
		time.Sleep(5 * time.Minute) // the test's server ends attempts after ten
		assert.Zero(t, stops.Load(), "it serves while the server is away")
		say(serviceerror.NewNotFound("it has timed out"))
		time.Sleep(20 * time.Second)
		assert.Zero(t, stops.Load(), "it serves until another attempt comes")
		say(nil)
		second := attempt(h, task)
		assert.ErrorContains(t, <-first, "a later attempt holds this executor")
		time.Sleep(5 * time.Minute)
		assert.EqualValues(t, 1, starts.Load(), "it was neither stopped nor started again")
		assert.Zero(t, stops.Load())
		close(drain)
		assert.NoError(t, <-second)
	})
}

func TestAnExecutorThatNobodyTakesOverStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Host{Name: "one", Executors: &fake{run: until(0)}, Pulse: func(context.Context, []byte, any) error { return serviceerror.NewNotFound("gone") }}
		begin := time.Now()
		err := <-attempt(h, executors.Task{Slot: placement.Slot{Executor: "e"}})
		var app *temporal.ApplicationError
		require.ErrorAs(t, err, &app)
		assert.Equal(t, TypeFenced, app.Type())
		assert.GreaterOrEqual(t, time.Since(begin), orphanPatience)
		assert.Empty(t, h.runs)
	})
}

// TestAnExecutorWhoseWorkflowHasEndedStopsAtOnce: its host was lost, and others do its work.
func TestAnExecutorWhoseWorkflowHasEndedStopsAtOnce(t *testing.T) {
	for name, first := range map[string]error{"heard at once": ErrOver, "heard later": serviceerror.NewNotFound("the attempt has timed out")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var beats atomic.Int64
				h := &Host{Name: "one", Executors: &fake{run: until(0)}, Pulse: func(context.Context, []byte, any) error {
					if beats.Add(1) > 1 {
						return ErrOver
					}
					return first
				}}
				begin := time.Now()
				require.Error(t, <-attempt(h, executors.Task{Slot: placement.Slot{Executor: "e"}}))
				assert.LessOrEqual(t, time.Since(begin), DefaultHeartbeatTimeout)
				assert.Empty(t, h.runs)
			})
		})
	}
}

func TestLeaseBeatsWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var beats atomic.Int64
		stop := make(chan struct{})
		l := lease{timeout: 10 * time.Second, stop: stop, pulse: func(context.Context) error { beats.Add(1); return nil }}
		work, _, release := l.hold(t.Context())
		close(stop)
		<-work.Done()
		assert.ErrorIs(t, context.Cause(work), ErrStopping)
		before := beats.Load()
		time.Sleep(20 * time.Second)
		assert.Greater(t, beats.Load(), before+5)
		release()
		after := beats.Load()
		time.Sleep(20 * time.Second)
		assert.Equal(t, after, beats.Load())
	})
}

func TestHoldHostLeavesWithItsWorker(t *testing.T) {
	var said atomic.Value
	h := &Host{Name: "one", Pulse: func(_ context.Context, _ []byte, v any) error { said.Store(v); return nil }}
	h.Readings = func() []devices.Reading { return []devices.Reading{{GPU: &devices.GPU{UUID: "1"}}} }
	env := environment(h)
	stop := make(chan struct{})
	close(stop)
	env.SetWorkerStopChannel(stop)
	_, err := env.ExecuteActivity(h.HoldHost, HostInfo{Name: "one"})
	require.NoError(t, err)
	require.Equal(t, HostBeat{Present: "0s", Devices: h.Readings()}, said.Load(), "the state of its devices")
}
