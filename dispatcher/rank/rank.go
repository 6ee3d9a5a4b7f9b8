package rank

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// Options configures a Scheduler.
type Options struct {
	Policy  string // adaptive, deferred or eager; "" means adaptive
	Pool    shared.Options
	Workers int // goroutines that models are dealt to; at least 1, at most one a model

	// Now is the clock: the time since some epoch, never falling.
	Now func() dispatch.Time

	// Start is told of every batch, Drop of every request given up. Both are
	// called from workers, several at a time for different models; they must
	// not block, nor keep batch after they return.
	Start func(executor dispatch.ExecutorID, class int32, batch []dispatch.RequestID)
	Drop  func(id dispatch.RequestID, reason dispatch.Reason)
}

// Scheduler dispatches requests of many models on one pool of executors.
type Scheduler struct {
	workers []*worker
	home    []address // by class
	owners  owners
	done    sync.WaitGroup
	closed  atomic.Bool
	stop    chan struct{}
}

// address is where a model is served: a worker, and its class there.
type address struct {
	worker int32
	class  int32
}

// New starts the scheduler. Close ends it.
func New(o Options) (*Scheduler, error) {
	o.Policy = cmp.Or(o.Policy, "adaptive")
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Scheduler{home: make([]address, len(o.Pool.Models)), stop: make(chan struct{})}
	models := deal(o.Pool.Models, min(o.Workers, len(o.Pool.Models)))
	board := make(board, len(models))
	for i, classes := range models {
		w, err := newWorker(s, o, int32(i), classes, board)
		if err != nil {
			return nil, err
		}
		for k, class := range classes {
			s.home[class] = address{worker: int32(i), class: int32(k)}
		}
		s.workers = append(s.workers, w)
	}
	s.done.Add(len(s.workers))
	for _, w := range s.workers {
		go w.run()
	}
	return s, nil
}

func (o Options) check() error {
	switch {
	case o.Workers < 1:
		return fmt.Errorf("a scheduler needs at least one worker, not %d", o.Workers)
	case o.Now == nil || o.Start == nil || o.Drop == nil:
		return errors.New("a scheduler needs a clock and functions for starts and drops")
	case o.Pool.Delay != (dispatch.Delay{}):
		return errors.New("a scheduler over workers exchanges idle executors only: keep network delays as a margin")
	}
	return o.Pool.Check()
}

// deal shares models out by their expected rates, the highest first to whoever
// has least; where no rates are known, by turns.
func deal(models []shared.Model, workers int) [][]int32 {
	order := make([]int32, len(models))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(models[b].Rate, models[a].Rate) })
	dealt, rates := make([][]int32, workers), make([]float64, workers)
	for _, class := range order {
		to := 0
		for w := range dealt {
			if c := cmp.Compare(rates[w], rates[to]); c < 0 || c == 0 && len(dealt[w]) < len(dealt[to]) {
				to = w
			}
		}
		dealt[to] = append(dealt[to], class)
		rates[to] += models[class].Rate
	}
	return dealt
}

// Submit hands over requests of one model. The slice may be used again at once.
// It returns how many requests of the model's worker have yet to be looked at,
// by which a caller can tell that the scheduler is behind. A caller with
// requests of many models uses a Feed.
func (s *Scheduler) Submit(class int32, requests ...dispatch.Request) int {
	h := s.home[class]
	return s.workers[h.worker].box.requests(h.class, requests)
}

// Cancel says that a request is no longer wanted. One that has started or was
// dropped is not affected.
func (s *Scheduler) Cancel(class int32, r dispatch.Request) {
	h := s.home[class]
	r.Class = h.class
	s.workers[h.worker].box.event(dispatch.Event{Kind: dispatch.Cancel, Request: r})
}

// ExecutorUp adds an idle executor of a group (see dispatch.Model). Numbers
// should be small and dense.
func (s *Scheduler) ExecutorUp(id dispatch.ExecutorID, group int32) error {
	if id < 0 || id >= maxExecutors {
		return fmt.Errorf("an executor is numbered from 0 to %d, not %d", maxExecutors-1, id)
	}
	if s.owners.of(id) < 0 {
		s.owners.set(id, int32(int(id)%len(s.workers)))
	}
	s.send(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: group})
	return nil
}

// ExecutorFree says that an executor has ended its batch.
func (s *Scheduler) ExecutorFree(id dispatch.ExecutorID) {
	s.send(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id})
}

// ExecutorGone takes an executor away. A batch may start on it until the worker
// has read this.
func (s *Scheduler) ExecutorGone(id dispatch.ExecutorID) {
	s.send(dispatch.Event{Kind: dispatch.ExecutorGone, Executor: id})
}

// send tells the owner of the executor; nobody where it was never up.
func (s *Scheduler) send(ev dispatch.Event) {
	if to := s.owners.of(ev.Executor); to >= 0 {
		s.workers[to].box.event(ev)
	}
}

// Backlog is how many requests lie in mailboxes.
func (s *Scheduler) Backlog() int {
	n := 0
	for _, w := range s.workers {
		w.box.mu.Lock()
		n += len(w.box.arrivals)
		w.box.mu.Unlock()
	}
	return n
}

// Close stops all goroutines and returns when they have ended. Requests that
// wait are not answered.
func (s *Scheduler) Close() {
	s.closed.Store(true)
	close(s.stop)
	s.done.Wait()
}
