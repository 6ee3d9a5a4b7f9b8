package rank

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// none is a demand for nothing.
const none int64 = math.MaxInt64

// worker runs the policy of some models.
type worker struct {
	scheduler *Scheduler
	policy    dispatch.Demander
	classes   []int32 // in the scheduler, by class in the policy
	now       func() dispatch.Time
	start     func(dispatch.ExecutorID, int32, []dispatch.RequestID)
	drop      func(dispatch.RequestID, dispatch.Reason)

	demand   atomic.Int64 // last instant for its most urgent batch, or none
	borrowed bool         // the rank's: an executor is lent to it

	mu     sync.Mutex
	inbox  []dispatch.Event
	loans  []dispatch.ExecutorID
	wake   chan struct{}
	actual []dispatch.Action
	timer  dispatch.Time
}

func newWorker(s *Scheduler, o Options, classes []int32) *worker {
	w := &worker{scheduler: s, classes: classes, now: o.Now, start: o.Start, drop: o.Drop, wake: make(chan struct{}, 1), timer: dispatch.Time(none)}
	pool := o.Pool
	pool.Models = nil
	for _, class := range classes {
		pool.Models = append(pool.Models, o.Pool.Models[class])
	}
	w.policy = dispatch.NewDemander(pool)
	w.demand.Store(none)
	return w
}

// put adds to the mailbox.
func (w *worker) put(class int32, kind dispatch.Kind, requests []dispatch.Request) int {
	w.mu.Lock()
	first := len(w.inbox) == 0
	for _, r := range requests {
		r.Class = class
		w.inbox = append(w.inbox, dispatch.Event{Kind: kind, Request: r})
	}
	n := len(w.inbox)
	w.mu.Unlock()
	if first {
		w.nudge()
	}
	return n
}

// lend hands an executor over for one batch.
func (w *worker) lend(id dispatch.ExecutorID) {
	w.mu.Lock()
	w.loans = append(w.loans, id)
	w.mu.Unlock()
	w.nudge()
}

func (w *worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) run() {
	defer w.scheduler.done.Done()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	var events []dispatch.Event
	var loans []dispatch.ExecutorID
	for {
		select {
		case <-w.wake:
		case <-alarm.C:
		case <-w.scheduler.stop:
			return
		}
		w.mu.Lock()
		events, w.inbox = w.inbox, events[:0]
		loans, w.loans = w.loans, loans[:0]
		w.mu.Unlock()
		now := w.now()
		for _, id := range loans {
			w.use(now, id)
		}
		for _, ev := range events {
			w.step(now, ev)
		}
		if w.timer <= now {
			w.timer = dispatch.Time(none)
			w.step(now, dispatch.Event{Kind: dispatch.Timer})
		}
		w.publish()
		alarm.Reset(max(0, min(time.Hour, w.timer-w.now())))
	}
}

// use offers a lent executor to the policy and gives it back.
func (w *worker) use(now dispatch.Time, id dispatch.ExecutorID) {
	end := change{executor: id, worker: w, kind: back}
	if w.step(now, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id}) {
		end.kind = used
	}
	w.step(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: id})
	w.publish() // before the loan ends, so that the rank sees what is left
	w.scheduler.tell(end)
}

// publish tells the rank what the worker needs.
func (w *worker) publish() {
	last, ok := w.policy.Demand()
	if !ok {
		last = dispatch.Time(none)
	}
	if w.demand.Swap(int64(last)) != int64(last) && ok {
		w.scheduler.nudge()
	}
}

// step drives the policy and says whether a batch started.
func (w *worker) step(now dispatch.Time, ev dispatch.Event) (started bool) {
	w.actual = w.policy.Step(now, ev, w.actual[:0])
	for i := range w.actual {
		switch a := &w.actual[i]; a.Act {
		case dispatch.SetTimer:
			w.timer = a.At
		case dispatch.Start:
			started = true
			w.start(a.Executor, w.classes[a.Class], a.Batch)
		case dispatch.Drop:
			w.drop(a.Request, a.Reason)
		}
	}
	return started
}
