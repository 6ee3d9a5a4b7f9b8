package workflows

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// world is a fleet, hosts and a gateway as the activities see them. The
// planning activities are the real ones.
type world struct {
	mu         sync.Mutex
	fleet      activities.FleetView
	conflicts  int // reservations to refuse
	settled    int // services that were placed in turn
	profiled   []string
	prepared   []placement.Deployment
	installed  []placement.Deployment
	released   []string
	removed    []string
	since      []placement.Age // what was removed must have been made to be installed again
	running    map[string]bool
	prepareErr error
	installErr error
	installing func(queue string) // is called before; nil does nothing
	removeErr  error
	tried      []pipelines.Update
	tryErr     error
	announced  []string
	gateways   []activities.Member

	provisioners []activities.Member

	stocks int    // how often a service took stock; it then finds what it has
	over   string // why it is over with executors that are looked at; empty where it is not

	loadErr   error  // of executors, which end with it at once
	engine    string // of every module; empty means emulated
	kept      []activities.KeepInput
	managed   []activities.ManageInput // requests to providers, in order
	manageErr error
}

func newWorld(devices int) *world {
	w := &world{running: map[string]bool{}}
	w.fleet = activities.FleetView{Version: 1, Hosts: []activities.HostInfo{host("one", devices)}, Reserved: map[string][]placement.Slot{}}
	w.gateways = []activities.Member{gatewayMember("g1")}
	return w
}

func gatewayMember(name string) activities.Member {
	return activities.Member{Kind: activities.KindGateway, Name: name, Instance: "1", Address: name + ":8080", Attach: name + ":8090"}
}

func host(name string, devices int) activities.HostInfo {
	h := activities.HostInfo{Name: name}
	for i := range devices {
		h.Devices = append(h.Devices, placement.Device{Host: name, Name: "cpu/" + string(rune('0'+i)), Hardware: "cpu"})
	}
	return h
}

func (w *world) register(env *testsuite.TestWorkflowEnvironment) {
	for name, f := range map[string]any{TypeService: Service, TypeProfile: Profile, TypeReschedule: Reschedule, TypeExecutor: w.executor} {
		env.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	env.RegisterActivity(&activities.Planning{})
	for name, f := range map[string]any{
		"Watch": w.watch, "Reserve": w.reserve, "Settle": w.settle, "Want": w.want, "Identify": w.identify, "ProfileModule": w.profile,
		"KeepProfile":     w.keep,
		"ManageFunctions": w.manage,
		"Prepare":         w.prepare, "Install": w.install, "Release": w.release, "Remove": w.remove, "Announce": w.announce,
		"Try": w.try, "Examine": w.examine, "TakeStock": w.takeStock,
	} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

func (w *world) watch(context.Context, string) (activities.FleetView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	view := w.fleet
	view.Members = append(slices.Clone(w.gateways), w.provisioners...)
	return view, nil
}

func (w *world) examine(_ context.Context, ids []string) (map[string]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	over := map[string]string{}
	for _, id := range ids {
		if w.over != "" {
			over[id] = w.over
		}
	}
	return over, nil
}

func (w *world) takeStock(ctx context.Context, in activities.StockInput) (s activities.Stock, err error) {
	s.View, err = w.watch(ctx, in.Service)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stocks++
	return s, err
}

func (w *world) want(_ context.Context, r activities.WantRequest) (activities.FleetView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked(r.Service, r.Wants)
	return w.fleet, nil
}

func (w *world) asked(service string, wants []activities.Want) {
	if w.fleet.Wants == nil {
		w.fleet.Wants = map[string][]activities.Want{}
	}
	w.fleet.Wants[service] = wants
}

func (w *world) reserve(_ context.Context, r activities.Reservation) (activities.FleetView, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conflicts > 0 && r.Version != 0 {
		w.conflicts--
		return w.fleet, temporal.NewNonRetryableApplicationError("version", activities.TypeConflict, nil)
	}
	w.fleet.Version++
	w.fleet.Reserved[r.Service] = r.Slots
	w.asked(r.Service, r.Wants)
	return w.fleet, nil
}

// settle places and reserves as the activity does, whatever conflicts there are without it.
func (w *world) settle(ctx context.Context, in activities.SettleInput) (out activities.Settled, err error) {
	out.View, _ = w.watch(ctx, in.Service)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settled++
	free := out.View.For(in.Own...)
	r := *in.Request
	r.Devices, r.Reserved, r.Start = free.Devices, free.Held, out.View.Version
	if out.Placement, err = placement.Place(r); err == nil {
		w.fleet.Version++
		w.fleet.Reserved[in.Service] = out.Placement.Slots
	}
	return out, err
}

func (w *world) reserved(service string) []placement.Slot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fleet.Reserved[service]
}

func (w *world) identify(_ context.Context, in activities.IdentifyInput) (map[string]placement.ModuleEngine, error) {
	all := map[string]placement.ModuleEngine{}
	for _, m := range in.Modules {
		all[m.Name] = placement.ModuleEngine{Engine: cmp.Or(w.engine, "emulated"), Model: "sha256:" + m.Name}
	}
	return all, nil
}

func (w *world) profile(_ context.Context, in activities.ProfileInput) (activities.ProfileResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := in.Module + "@" + in.Hardware
	if in.Again {
		what += " again"
	}
	w.profiled = append(w.profiled, what)
	return activities.ProfileResult{Module: in.Module, Points: points(in.Hardware)}, nil
}

func (w *world) keep(_ context.Context, in activities.KeepInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, in)
	return nil
}

func points(hardware string) []pipelines.Point {
	var all []pipelines.Point
	for batch := 1; batch <= 8; batch *= 2 {
		d := time.Duration(8+2*batch) * time.Millisecond
		all = append(all, pipelines.Point{Hardware: hardware, Batch: batch, Concurrency: 1, Duration: d})
	}
	return all
}

// executor stands in for the executor workflow: the test clock does not skip
// while an activity runs. It ends when it is cancelled.
func (w *world) executor(ctx workflow.Context, in ExecutorInput) (activities.ExecutorResult, error) {
	name := in.Task.Slot.Executor
	w.set(name, true)
	defer w.set(name, false)
	w.mu.Lock()
	err := w.loadErr
	w.mu.Unlock()
	if err != nil {
		return activities.ExecutorResult{}, err
	}
	_ = workflow.Await(ctx, func() bool { return false })
	return activities.ExecutorResult{Executor: name, Reason: "cancelled"}, nil
}

func (w *world) set(name string, runs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[name] = runs
}

// count is the number of executors that run.
func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, runs := range w.running {
		if runs {
			n++
		}
	}
	return n
}

// counts expects so many executors to run. A workflow that is cancelled under test ends
// in a goroutine of its own, which other load may hold up.
func (w *world) counts(t *testing.T, n int) {
	t.Helper()
	assert.Eventually(t, func() bool { return w.count() == n }, time.Minute, time.Millisecond)
}

// runs expects an executor to run, or not.
func (w *world) runs(t *testing.T, name string, runs bool) {
	t.Helper()
	assert.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.running[name] == runs
	}, time.Minute, time.Millisecond, name)
}

func (w *world) prepare(_ context.Context, d placement.Deployment) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.prepared = append(w.prepared, d)
	return w.prepareErr
}

func (w *world) manage(_ context.Context, in activities.ManageInput) (functions.Managing, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.managed) > 0 && len(in.Want) > len(w.managed[len(w.managed)-1].Want) && w.manageErr != nil {
		return functions.Managing{}, w.manageErr
	}
	w.managed = append(w.managed, in)
	return functions.Managing{}, nil
}

func (w *world) install(ctx context.Context, d placement.Deployment) error {
	if w.installing != nil {
		w.installing(activity.GetInfo(ctx).TaskQueue)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.installErr == nil {
		w.installed = append(w.installed, d)
	}
	return w.installErr
}

func (w *world) release(_ context.Context, in activities.ReleaseInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.released = append(w.released, in.Executors...)
	return nil
}

func (w *world) remove(_ context.Context, service string, since placement.Age) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed, w.since = append(w.removed, service), append(w.since, since)
	return w.removeErr
}

func (w *world) try(_ context.Context, in activities.TryInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tried = append(w.tried, in.Update)
	return w.tryErr
}

func (w *world) announce(_ context.Context, service string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.announced = append(w.announced, service)
	return nil
}

// change changes the world while it is in use.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// traffic is a pipeline of two modules, one of which has a profile on file.
func traffic(rate float64) scheduler.Spec {
	return scheduler.Spec{
		Pipeline: &pipelines.Pipeline{
			Name: "traffic", SLO: 200 * time.Millisecond, Rate: rate,
			Inputs: []pipelines.Port{{Name: "frame", Datatype: "FP32", Shape: []int64{4}}},
			Modules: []pipelines.Module{
				{Name: "detect", Fanout: 1, Inputs: []pipelines.Binding{{Name: "image", From: pipelines.Ref{Port: "frame"}}}},
				{
					Name: "vehicle", Fanout: 1, Inputs: []pipelines.Binding{{Name: "crop", From: pipelines.Ref{Module: "detect", Port: "out"}}},
					ProfileFile: "vehicle.csv", Profile: pipelines.Profile{Points: points("cpu")},
				},
			},
			Outputs: []pipelines.Output{{Name: "label", From: pipelines.Ref{Module: "vehicle", Port: "out"}}},
		},
		Hardware: []pipelines.Hardware{{Name: "cpu", Price: 0.1}},
	}
}

// rig runs the service workflow in a world and lets a test act at given times of
// the workflow's clock.
type rig struct {
	*testsuite.TestWorkflowEnvironment
	kind    scheduler.Kind
	t       *testing.T
	world   *world
	updates int

	continued bool // executors were started by an earlier run, in another environment
}

func newRig(t *testing.T, w *world) *rig {
	env := quietEnv()
	env.SetStartTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	w.register(env)
	r := &rig{TestWorkflowEnvironment: env, kind: scheduler.KindPipeline, t: t, world: w}
	r.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, id, _, name string, arg any) error { return r.deliver(id, name, arg) }).Maybe()
	r.OnRequestCancelExternalWorkflow(mock.Anything, mock.Anything, mock.Anything).
		Return(func(_, id, _ string) error {
			if !r.continued {
				env.CancelWorkflowByID(id, "")
			}
			return nil
		}).Maybe()
	return r
}

// deliver hands signals of executors and reschedules to the service, and its own to them.
func (r *rig) deliver(id, name string, arg any) error {
	if name == SignalGateways {
		return r.SignalWorkflowByID(id, name, arg)
	}
	r.SignalWorkflow(name, arg) // before the clock may go on
	return nil
}

// at runs f after d on the workflow's clock.
func (r *rig) at(d time.Duration, f func()) { r.RegisterDelayedCallback(f, d) }

// update sends an update and returns where its reply will be.
func (r *rig) update(name string, arg any) *reply {
	var got reply
	r.updates++
	r.UpdateWorkflow(name, fmt.Sprint(name, r.updates), &testsuite.TestUpdateCallback{
		OnReject: func(err error) { got.rejected = err },
		OnAccept: func() {},
		OnComplete: func(v any, err error) {
			got.err = err
			if c, ok := v.(ChangeReply); ok {
				got.ChangeReply = c
			}
		},
	}, arg)
	return &got
}

type reply struct {
	ChangeReply
	rejected, err error
}

func (r *rig) status() Status {
	var s Status
	v, err := r.QueryWorkflow(QueryStatus)
	require.NoError(r.t, err)
	require.NoError(r.t, v.Get(&s))
	return s
}

// run starts the service and expects that it is deleted in the end.
func (r *rig) run(s Settings) {
	r.ExecuteWorkflow(TypeService, State{Kind: r.kind, Name: "traffic", Settings: s})
	require.True(r.t, r.IsWorkflowCompleted())
	require.NoError(r.t, r.GetWorkflowError())
}

func activitiesNotReady() error {
	return temporal.NewNonRetryableApplicationError("still waits for detect", activities.TypeNotReady, nil)
}

func fromPayloads(e *workflow.ContinueAsNewError, into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(e.Input, into)
}
