package dispatcher

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// slowRuns knows the slowest runs of modules on the kinds of hardware that they have run on.
type slowRuns map[RunKey]pipelines.SlowestRuns

// RunKey is a module of a deployment, by its number, on some hardware.
type RunKey struct {
	Of          placement.Age
	Node        int32
	Hardware    string
	Concurrency int
}

// kept bounds what is kept of generations that may be gone.
const kept = 256

// Of are the runs of a module, nil for what has no profile.
func (r *slowRuns) Of(k RunKey, m *pipelines.Module) pipelines.SlowestRuns {
	runs, ok := (*r)[k]
	if !ok {
		if *r == nil || len(*r) >= kept {
			*r = make(slowRuns)
		}
		if m != nil {
			runs = m.Profile.SlowestRuns(k.Hardware, k.Concurrency)
		}
		(*r)[k] = runs
	}
	return runs
}

// stuckTimer calls a function once the time that it was set to is over.
type stuckTimer interface{ Reset(d time.Duration) bool }

// stuckWatch watches the batches that run on a device. Its methods are called under one lock.
type stuckWatch[Batch comparable] struct {
	Timer func() stuckTimer // makes one that has Look called
	Now   func() dispatch.Time

	timer   stuckTimer    // nil until it is needed
	at      dispatch.Time // that it is set to; 0 where it is not
	running []watched[Batch]
	stuck   bool
	freed   atomic.Bool
}

type watched[Batch comparable] struct {
	batch  Batch
	misses dispatch.Time
}

// Begin notes a batch that will be stuck and have missed a deadline by then; 0 and
// dispatch.Never are that it never is.
func (w *stuckWatch[Batch]) Begin(b Batch, misses dispatch.Time) {
	if misses == 0 || misses == dispatch.Never {
		return
	}
	w.running = append(w.running, watched[Batch]{b, misses})
	if w.at != 0 && w.at <= misses {
		return // it will look then, and find the next time
	}
	if w.timer == nil {
		w.timer = w.Timer()
	}
	w.at = misses
	w.timer.Reset(misses - w.Now())
}

// End forgets a batch.
func (w *stuckWatch[Batch]) End(b Batch) {
	i := slices.IndexFunc(w.running, func(r watched[Batch]) bool { return r.batch == b })
	if i < 0 {
		return
	}
	w.running = slices.Delete(w.running, i, i+1)
	if w.stuck && !w.any(w.Now()) {
		w.stuck = false
		w.freed.Store(true)
	}
}

func (w *stuckWatch[Batch]) any(now dispatch.Time) bool {
	return slices.ContainsFunc(w.running, func(r watched[Batch]) bool { return r.misses <= now })
}

// Look finds out whether a batch is stuck, and says whether that has changed.
func (w *stuckWatch[Batch]) Look() (changed bool) {
	now, next := w.Now(), dispatch.Never
	for _, r := range w.running {
		if r.misses > now {
			next = min(next, r.misses)
		}
	}
	if w.at = 0; next != dispatch.Never {
		w.at = next
		w.timer.Reset(next - now)
	}
	was := w.stuck
	w.stuck = w.any(now)
	return w.stuck != was
}

// Stuck says whether a batch is stuck and has missed a deadline.
func (w *stuckWatch[Batch]) Stuck() bool { return w.stuck }

// Freed says, once and without the lock, that the last one that was stuck has ended.
func (w *stuckWatch[Batch]) Freed() bool { return w.freed.Load() && w.freed.Swap(false) }
