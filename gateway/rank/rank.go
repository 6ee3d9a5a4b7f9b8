package rank

import (
	"errors"
	"fmt"
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Options configures a Scheduler.
type Options struct {
	Pool    dispatch.DeferredOptions
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
	home    []seat // by class
	done    sync.WaitGroup

	mu     sync.Mutex
	events []change
	wake   chan struct{}
	stop   chan struct{}
}

// seat is where a model is served: a worker, and its class there.
type seat struct {
	worker *worker
	class  int32
}

// change is news for the rank.
type change struct {
	executor dispatch.ExecutorID
	worker   *worker // with back: whose loan ends
	kind     kind
}

type kind uint8

const (
	up   kind = iota + 1 // the executor is there, idle
	free                 // it has ended its batch
	gone
	used // the worker started a batch on it
	back // the worker had nothing for it
)

// New starts the scheduler. Close ends it.
func New(o Options) (*Scheduler, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Scheduler{home: make([]seat, len(o.Pool.Models)), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	models := make([][]int32, min(o.Workers, len(o.Pool.Models)))
	for class := range o.Pool.Models {
		w := class % len(models)
		models[w] = append(models[w], int32(class))
	}
	for _, classes := range models {
		w := newWorker(s, o, classes)
		for i, class := range classes {
			s.home[class] = seat{worker: w, class: int32(i)}
		}
		s.workers = append(s.workers, w)
	}
	s.done.Add(1 + len(s.workers))
	go s.run()
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
		return errors.New("a scheduler over workers lends idle executors only: keep network delays as a margin")
	}
	return o.Pool.Check()
}

// Submit hands over requests of one model. The slice may be used again at once.
// It returns how many requests of the model's worker have yet to be looked at,
// by which a caller can tell that the scheduler is behind.
func (s *Scheduler) Submit(class int32, requests ...dispatch.Request) int {
	h := s.home[class]
	return h.worker.put(h.class, dispatch.Arrive, requests)
}

// Cancel says that a request is no longer wanted. One that has started or was
// dropped is not affected.
func (s *Scheduler) Cancel(class int32, r dispatch.Request) {
	h := s.home[class]
	h.worker.put(h.class, dispatch.Cancel, []dispatch.Request{r})
}

// ExecutorUp adds an idle executor.
func (s *Scheduler) ExecutorUp(id dispatch.ExecutorID) { s.tell(change{executor: id, kind: up}) }

// ExecutorFree says that an executor has ended its batch.
func (s *Scheduler) ExecutorFree(id dispatch.ExecutorID) { s.tell(change{executor: id, kind: free}) }

// ExecutorGone takes an executor away. A batch may start on it until then.
func (s *Scheduler) ExecutorGone(id dispatch.ExecutorID) { s.tell(change{executor: id, kind: gone}) }

// Close stops all goroutines and returns when they have ended. Requests that
// wait are not answered.
func (s *Scheduler) Close() {
	close(s.stop)
	s.done.Wait()
}

func (s *Scheduler) tell(c change) {
	s.mu.Lock()
	s.events = append(s.events, c)
	first := len(s.events) == 1
	s.mu.Unlock()
	if first {
		s.nudge()
	}
}

// nudge makes the rank look again.
func (s *Scheduler) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run is the rank.
func (s *Scheduler) run() {
	defer s.done.Done()
	var r ranking
	var events []change
	for {
		select {
		case <-s.wake:
		case <-s.stop:
			return
		}
		s.mu.Lock()
		events, s.events = s.events, events[:0]
		s.mu.Unlock()
		for _, c := range events {
			r.note(c)
		}
		r.lend(s.workers)
	}
}

// ranking is what the rank knows: the state of each executor.
type ranking struct {
	state []state // by executor
	idle  []dispatch.ExecutorID
}

type state uint8

const (
	absent state = iota
	idle
	lent
	busy
	leaving // lent, and gone meanwhile
	ended   // lent, and its batch has ended before the worker told of it
)

func (r *ranking) note(c change) {
	if c.executor < 0 {
		return
	}
	for int(c.executor) >= len(r.state) {
		r.state = append(r.state, absent)
	}
	was := r.state[c.executor]
	if c.worker != nil {
		c.worker.borrowed = false
	}
	switch {
	case c.kind == up && was == absent, c.kind == free && was == busy,
		c.kind == back && was == lent, c.kind == used && was == ended:
		r.state[c.executor] = idle
		r.idle = append(r.idle, c.executor)
	case c.kind == up && was == leaving:
		r.state[c.executor] = lent
	case c.kind == used && was == lent:
		r.state[c.executor] = busy
	case c.kind == free && was == lent:
		r.state[c.executor] = ended
	case c.kind == gone && (was == lent || was == ended):
		r.state[c.executor] = leaving
	case c.kind == gone && (was == idle || was == busy), was == leaving && (c.kind == used || c.kind == back):
		r.state[c.executor] = absent
	}
}

// lend gives free executors to the workers with the least time left. A worker
// borrows one at a time.
func (r *ranking) lend(workers []*worker) {
	for {
		var best *worker
		least := none
		for _, w := range workers {
			if last := w.demand.Load(); last < least && !w.borrowed {
				best, least = w, last
			}
		}
		if best == nil {
			return
		}
		id, ok := r.take()
		if !ok {
			return
		}
		best.borrowed = true
		best.lend(id)
	}
}

func (r *ranking) take() (dispatch.ExecutorID, bool) {
	for len(r.idle) > 0 {
		id := r.idle[len(r.idle)-1]
		r.idle = r.idle[:len(r.idle)-1]
		if r.state[id] == idle {
			r.state[id] = lent
			return id, true
		}
	}
	return 0, false
}
