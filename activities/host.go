package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
)

const useExisting = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING

// Executors is what the activities want of a host; *executors.Host is one.
type Executors interface {
	RunExecutor(ctx context.Context, t executors.Task, o executors.Observer) error
	Measure(ctx context.Context, t executors.MeasureTask, from executors.Measured, tell func(executors.Measured)) ([]pipelines.Point, error)
	Fit(ctx context.Context, t executors.MeasureTask) (executors.MeasureTask, error)
	EngineFor(m pipelines.Module) (executors.Engine, error)
	Status(executor string) (executors.Status, bool)
}

// Host is the set of activities of one host.
type Host struct {
	Name      string
	Machine   string // kind of machine; profiles of another kind are not reused
	Executors Executors
	Store     ProfileStore

	// Signatures reports what modules consume and produce, for the inputs of
	// profiling; nil measures with what the modules themselves declare.
	Signatures func(pipelines.Module) (pipelines.Signature, error)

	// Gateway, where set, is what the executors of this host dial, in place of the
	// workflows' addresses.
	Gateway string

	// Readings reports the state of the devices; nil reports nothing.
	Readings func() []devices.Reading

	// Pulse sends the heartbeats of RunExecutor and HoldHost; see ClientPulse.
	Pulse Pulse

	// Gateways receives the addresses of the gateways that executors attach to; may be nil.
	Gateways func(addresses []string)

	// Leaving is called when the fleet has the host leave; may be nil.
	Leaving func()

	// Presence reports whether the fleet holds the host.
	Presence Presence

	mu      sync.Mutex
	runs    map[string]*run // by executor
	version int             // of the fleet in the last call of Gateways
}

// Identify reports which engine and model digest every module has here.
func (h *Host) Identify(_ context.Context, in IdentifyInput) (map[string]placement.ModuleEngine, error) {
	engines := make(map[string]placement.ModuleEngine, len(in.Modules))
	for _, m := range in.Modules {
		engine, err := h.Executors.EngineFor(m)
		if err != nil {
			return nil, temporal.NewNonRetryableApplicationError(err.Error(), TypeInvalid, nil)
		}
		digest, err := content.Digest(m)
		if err != nil {
			return nil, temporal.NewNonRetryableApplicationError(err.Error(), TypeInvalid, nil)
		}
		engines[m.Name] = placement.ModuleEngine{Engine: engine.Name(), Model: digest, Memory: memory(m.Profile)}
	}
	return engines, nil
}

// memory is the most that a profile has seen a module use, in bytes.
func memory(p pipelines.Profile) int64 {
	most := 0.0
	for _, point := range p.Points {
		most = max(most, point.MemoryMiB)
	}
	return int64(most * (1 << 20))
}

// RunExecutor runs one executor until it is cancelled or drained by the gateway.
// It goes on while Temporal is away; the attempt that the server makes when it is
// back takes over the executor that runs. It returns a result when the executor
// has ended in good order for good, and an error that may be retried when it is to
// run again, here or elsewhere.
func (h *Host) RunExecutor(ctx context.Context, t executors.Task) (ExecutorResult, error) {
	t.Gateway = cmp.Or(h.Gateway, t.Gateway)
	r, taken := h.take(ctx, t)
	if err := h.holdRun(ctx, r, taken); err != nil {
		return ExecutorResult{}, err
	}
	end := r.final
	result := ExecutorResult{Executor: t.Slot.Executor, Batches: end.Batches, Items: end.Items, Failed: end.Failed}
	var err error
	result.Reason, err = h.outcome(ctx, context.Cause(r.work), r.err)
	return result, err
}

// outcome turns the end of an executor into the activity's: a reason when it
// is over for good.
func (h *Host) outcome(ctx context.Context, cause, err error) (string, error) {
	again := func(kind string) error {
		return temporal.NewApplicationErrorWithCause(cause.Error(), kind, err)
	}
	switch {
	case cause == nil && err == nil:
		return "drained by the gateway", nil
	case cause == nil:
		return "", loading(ctx, err)
	case errors.Is(cause, ErrCancelled):
		if err != nil {
			return "", fmt.Errorf("activities: draining after cancellation: %w", err)
		}
		return "cancelled", nil
	case errors.Is(cause, ErrFenced), errors.Is(cause, ErrOver):
		return "", again(TypeFenced)
	case errors.Is(cause, context.Canceled), errors.Is(cause, ErrStopping):
		return "", again(TypeStopping)
	}
	return "", again("Interrupted") // paused or reset by an operator
}

// loading keeps Temporal from repeating what failed because an engine is missing or
// cannot load a module, unless that may help, so that the reason reaches the waiting
// workflow at once.
func loading(ctx context.Context, err error) error {
	var load *executors.LoadError
	attempt := 1
	if activity.IsActivity(ctx) {
		attempt = int(activity.GetInfo(ctx).Attempt)
	}
	if !errors.As(err, &load) || load.Again(attempt) {
		return err
	}
	return temporal.NewNonRetryableApplicationError(err.Error(), TypeLoad, nil)
}

// HoldHost keeps the host present for as long as it heartbeats. It returns
// when the worker shuts down, which means that the host has left.
func (h *Host) HoldHost(ctx context.Context, _ HostInfo) error {
	began := time.Now()
	return h.Presence.hold(ctx, newLease(ctx, h.Pulse, func() any {
		b := HostBeat{Present: present(began)}
		if h.Readings != nil {
			b.Devices = h.Readings()
		}
		return b
	}))
}

// Answer reports that the host is there.
func (h *Host) Answer(context.Context) error { return nil }

// Leave has the host end as soon as nothing runs there.
func (h *Host) Leave(context.Context, string) error {
	if h.Leaving != nil {
		h.Leaving()
	}
	return nil
}

// GatewaysInput is the input of UseGateways.
type GatewaysInput struct {
	Version  int      // of the fleet: of two that cross, the later one counts
	Gateways []Member // and dispatchers
}

// UseGateways sends the host the gateways that its executors attach to.
func (h *Host) UseGateways(_ context.Context, in GatewaysInput) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.Gateways != nil && in.Version >= h.version {
		h.version = in.Version
		h.Gateways(attachAddresses(in.Gateways))
	}
	return nil
}

// errTakenOver ends an attempt whose executor a later attempt has taken over.
// It is never received: the server has given the attempt up.
var errTakenOver = errors.New("activities: a later attempt holds this executor now")

// orphanPatience is how long an executor that serves waits for the next attempt
// of its activity, once the server has given the last one up and its workflow goes on. The
// server offers the next one at once, and gives up on the host well before: an executor
// without an attempt by then belongs to no workflow.
const orphanPatience = 2 * time.Minute

// run is an executor of this host. It outlives the attempts of its activity: the
// server times one out whenever it was away, or the host was, and what serves
// meanwhile is then taken over by the next attempt as it is.
type run struct {
	task  executors.Task
	work  context.Context // ends, with its cause, when the executor is to stop
	end   context.CancelCauseFunc
	ended chan struct{} // closed after final and err are set
	final executors.Status
	err   error
	taken chan struct{} // closed when another attempt takes over; under Host.mu
}

// take finds the executor that an attempt is to run, or starts it. One of the
// same name that does another task, or is about to stop, is left alone: starting
// the new one then fails, and is tried again.
func (h *Host) take(ctx context.Context, t executors.Task) (r *run, taken <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := t.Slot.Executor
	if r := h.runs[name]; r != nil && r.work.Err() == nil && reflect.DeepEqual(r.task, t) {
		close(r.taken)
		r.taken = make(chan struct{})
		return r, r.taken
	}
	r = &run{task: t, ended: make(chan struct{}), taken: make(chan struct{})}
	r.work, r.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if h.runs == nil {
		h.runs = map[string]*run{}
	}
	if before := h.runs[name]; before == nil {
		h.runs[name] = r
	}
	go h.perform(r)
	return r, r.taken
}

// perform runs the executor to its end.
func (h *Host) perform(r *run) {
	r.err = h.Executors.RunExecutor(r.work, r.task, executors.Observer{Drained: func(s executors.Status) { r.final = s }})
	h.mu.Lock()
	defer h.mu.Unlock()
	if name := r.task.Slot.Executor; h.runs[name] == r {
		delete(h.runs, name)
	}
	close(r.ended)
}

// holdRun holds a run by an attempt's heartbeats until it has ended, or another
// attempt holds it.
func (h *Host) holdRun(ctx context.Context, r *run, taken <-chan struct{}) error {
	name := r.task.Slot.Executor
	held, over, release := newLease(ctx, h.Pulse, func() any {
		s, _ := h.Executors.Status(name)
		return s
	}).hold(ctx)
	defer release()
	select {
	case <-r.ended:
		return nil
	case <-taken:
		return errTakenOver
	case <-held.Done():
	}
	cause := context.Cause(held)
	if errors.Is(cause, ErrFenced) {
		patience := time.NewTimer(orphanPatience)
		defer patience.Stop()
		select {
		case <-r.ended:
			return nil
		case <-taken:
			return errTakenOver
		case <-over: // its host was lost, and what it did has been given to others
			cause = ErrOver
		case <-activity.GetWorkerStopChannel(ctx):
			cause = ErrStopping
		case <-ctx.Done():
			cause = ErrStopping
		case <-patience.C:
		}
	}
	r.end(cause)
	<-r.ended
	return nil
}
