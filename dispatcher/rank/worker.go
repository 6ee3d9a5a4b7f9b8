package rank

import (
	"fmt"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

// chunk is how many arrivals are taken to come at the same instant: the clock is
// read once for them.
const chunk = 64

// worker runs the policy of some models on some executors.
type worker struct {
	box mailbox

	me        int32
	scheduler *Scheduler
	board     board
	policy    shared.Sharer
	classes   []int32 // in the scheduler, by class in the policy
	now       func() dispatch.Time
	start     func(dispatch.ExecutorID, int32, []dispatch.RequestID)
	drop      func(dispatch.RequestID, dispatch.Reason)

	timer   dispatch.Time
	state   []state // by executor
	actions []dispatch.Action

	_ [64]byte // the mailbox of another worker may lie behind
}

// state is what a worker knows of an executor.
type state struct {
	busy  bool
	group int32
}

func newWorker(s *Scheduler, o Options, me int32, classes []int32, board board) (*worker, error) {
	w := &worker{me: me, scheduler: s, board: board, classes: classes, now: o.Now, start: o.Start, drop: o.Drop, timer: dispatch.Time(none)}
	w.box.wake = make(chan struct{}, 1)
	pool := o.Pool
	pool.Models = nil
	for _, class := range classes {
		pool.Models = append(pool.Models, o.Pool.Models[class])
	}
	if pool.MaxQueue > 0 {
		pool.MaxQueue = max(1, pool.MaxQueue/len(board))
	}
	policy, err := shared.New(o.Policy, pool)
	if err != nil {
		return nil, err
	}
	sharer, ok := policy.(shared.Sharer)
	if !ok {
		return nil, fmt.Errorf("policy %q cannot run on several cores; choose adaptive, deferred or eager", o.Policy)
	}
	w.policy = sharer
	board.served(me)
	return w, nil
}

func (w *worker) run() {
	defer w.scheduler.done.Done()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	var arrivals []dispatch.Request
	var events []dispatch.Event
	for {
		arrivals, events = w.box.empty(arrivals, events)
		w.round(arrivals, events)
		if len(arrivals)+len(events) > 0 && !w.scheduler.closed.Load() {
			continue
		}
		alarm.Reset(max(0, min(time.Hour, w.timer-w.now())))
		select {
		case <-w.box.wake:
		case <-alarm.C:
		case <-w.scheduler.stop:
			return
		}
	}
}

// round does what was in the mailbox and what is due.
func (w *worker) round(arrivals []dispatch.Request, events []dispatch.Event) {
	now := w.now()
	ev := dispatch.Event{Kind: dispatch.Arrive}
	for len(arrivals) > 0 {
		n := min(chunk, len(arrivals))
		for i := range arrivals[:n] {
			ev.Request = arrivals[i]
			w.step(now, ev)
		}
		arrivals = arrivals[n:]
		now = w.tick()
	}
	for _, ev := range events {
		w.handle(now, ev)
	}
	now = w.tick()
	w.share(now)
}

// tick reads the clock and does what is due.
func (w *worker) tick() dispatch.Time {
	now := w.now()
	if w.timer <= now {
		w.timer = dispatch.Time(none)
		w.step(now, dispatch.Event{Kind: dispatch.Timer})
	}
	return now
}

// handle takes in an event that is not an arrival. One about an executor that
// was given away meanwhile follows it.
func (w *worker) handle(now dispatch.Time, ev dispatch.Event) {
	if ev.Kind == dispatch.Cancel {
		w.step(now, ev)
		return
	}
	gift := ev.Kind == dispatch.ExecutorUp && ev.Request.ID == gifted
	if owner := w.scheduler.owners.of(ev.Executor); owner != w.me {
		w.scheduler.workers[owner].box.event(ev)
		return
	}
	for int(ev.Executor) >= len(w.state) {
		w.state = append(w.state, state{})
	}
	st := &w.state[ev.Executor]
	switch ev.Kind {
	case dispatch.ExecutorUp:
		*st = state{group: ev.Group}
		if gift {
			w.board.served(w.me)
		}
	case dispatch.ExecutorGone:
		*st = state{}
	case dispatch.ExecutorFree:
		if !st.busy {
			return
		}
		st.busy = false
		if to, last := w.board.urgent(w.me); to >= 0 && w.yields(last) && w.board.claim(to, last) {
			w.give(now, ev.Executor, st.group, to)
			return
		}
	}
	w.step(now, ev)
}

// yields says whether a batch of another worker with that last instant goes
// before all of one's own.
func (w *worker) yields(last int64) bool {
	own, ok := w.policy.Demand()
	return !ok || dispatch.Time(last)+slack < own
}

// give hands an executor to another worker.
func (w *worker) give(now dispatch.Time, id dispatch.ExecutorID, group, to int32) {
	w.step(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: id})
	w.scheduler.workers[to].take(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: group, Request: dispatch.Request{ID: gifted}})
}

// take is called by the worker that gives. The owner changes while the mailbox
// is locked: whatever is sent to the new owner lies behind the executor, and
// what was sent to the old one is sent on.
func (w *worker) take(ev dispatch.Event) {
	w.box.mu.Lock()
	w.box.events = append(w.box.events, ev)
	w.scheduler.owners.set(ev.Executor, w.me)
	w.box.mu.Unlock()
	w.box.nudge()
}

// gifted marks an ExecutorUp that ends a claim.
const gifted dispatch.RequestID = 1

// share gives away what is not needed and asks for what is.
func (w *worker) share(now dispatch.Time) {
	if len(w.board) == 1 {
		return
	}
	mine := &w.board[w.me]
	for {
		id, group, ok := w.policy.Spare()
		if mine.idle.Load() != ok {
			mine.idle.Store(ok)
		}
		if !ok {
			break
		}
		to, last := w.board.urgent(w.me)
		if to < 0 {
			break
		}
		if w.board.claim(to, last) {
			w.give(now, id, group, to)
		}
	}
	last, ok := w.policy.Demand()
	if !ok {
		last = dispatch.Time(none)
	}
	if w.board.ask(w.me, int64(last)) {
		w.scheduler.wakeIdle(w.me)
	}
}

// wakeIdle wakes the workers with idle executors.
func (s *Scheduler) wakeIdle(me int32) {
	for i, w := range s.workers {
		if int32(i) != me && w.board[i].idle.Load() {
			w.box.nudge()
		}
	}
}

// step drives the policy.
func (w *worker) step(now dispatch.Time, ev dispatch.Event) {
	w.actions = w.policy.Step(now, ev, w.actions[:0])
	for i := range w.actions {
		switch a := &w.actions[i]; a.Act {
		case dispatch.SetTimer:
			w.timer = a.At
		case dispatch.Start:
			w.state[a.Executor].busy = true
			w.start(a.Executor, w.classes[a.Class], a.Batch)
		case dispatch.Drop:
			w.drop(a.Request, a.Reason)
		}
	}
}
