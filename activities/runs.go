package activities

import (
	"context"
	"errors"
	"reflect"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/harpagon/harpagon/executors"
)

// errTakenOver ends an attempt whose executor a later attempt has taken over.
// Nobody hears it: the server has given the attempt up.
var errTakenOver = errors.New("activities: a later attempt holds this executor now")

// orphanPatience is how long an executor that serves waits for the next attempt
// of its activity, once the server has given the last one up and its workflow goes on. The
// server offers the next one at once, and gives up on the host well before: an executor that
// nobody has asked for by then belongs to nobody.
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
