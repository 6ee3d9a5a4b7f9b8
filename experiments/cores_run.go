package experiments

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

const (
	stride = 64   // coresArrivals between two looks at what the executors do
	ahead  = 0.03 // part of the SLO by which a worker's clock may be ahead of another's
	nap    = 50 * time.Microsecond
)

// Run drives a dispatcher as it serves, from s.Workers goroutines, each of which has its
// part of the models and of the executors.
func Run(s CoresSetting) (CoresResult, error) {
	if err := s.check(); err != nil {
		return CoresResult{}, err
	}
	if s.Workers < 1 || s.Workers > min(s.Models, s.Executors) {
		return CoresResult{}, fmt.Errorf("%d workers cannot share %d models and %d executors", s.Workers, s.Models, s.Executors)
	}
	d := new(drive)
	d.clock.Store(1)
	d.dispatcher = dispatcher.New(dispatcher.Options{Now: d.now, NewTimer: d.newTimer, Record: -1})
	for i := range s.Workers {
		if err := d.add(s.part(i)); err != nil {
			return CoresResult{}, err
		}
	}
	d.play(s.early() / s.Workers)
	served, batches := d.counts()
	r := measureRun(func() { d.play(s.Requests / s.Workers) })
	r.Requests, r.Served, r.Batches = s.Requests/s.Workers*s.Workers, -served, -batches
	served, batches = d.counts()
	r.Served, r.Batches = r.Served+served, r.Batches+batches
	return r, nil
}

// drive is a dispatcher with all that happens to it.
type drive struct {
	dispatcher *dispatcher.Dispatcher
	workers    []*worker
	_          [64]byte
	clock      atomic.Int64 // that of the worker who is farthest
	_          [56]byte
}

func (d *drive) now() dispatch.Time { return dispatch.Time(d.clock.Load()) }

// newTimer gives the timer of a station to the worker that is being made.
func (d *drive) newTimer(f func()) dispatcher.Timer {
	w := d.workers[len(d.workers)-1]
	w.timers = append(w.timers, &timer{worker: w, at: never, f: f})
	return w.timers[len(w.timers)-1]
}

func (d *drive) counts() (served, batches int) {
	for _, w := range d.workers {
		served, batches = served+w.served, batches+w.batches
	}
	return served, batches
}

// play has every worker hand over n arrivals, as fast as the dispatcher takes them.
func (d *drive) play(n int) {
	for _, w := range d.workers {
		w.at.Store(int64(w.arrivals.now))
	}
	var all sync.WaitGroup
	for _, w := range d.workers {
		all.Go(func() { w.play(n) })
	}
	all.Wait()
}

// advance sets the clock to that of a worker, and waits for those that are far behind.
func (d *drive) advance(at dispatch.Time) {
	for now := d.clock.Load(); int64(at) > now && !d.clock.CompareAndSwap(now, int64(at)); now = d.clock.Load() {
	}
	for _, w := range d.workers {
		for dispatch.Time(w.at.Load()) < at-dispatch.Time(ahead*float64(slo)) {
			time.Sleep(nap) // one that spins would take the processor from the others
		}
	}
}

// worker is a gateway with its executors, driven by one goroutine.
type worker struct {
	drive    *drive
	arrivals *coresArrivals
	homes    []*dispatcher.Generation // by class
	wheel    wheel[*dispatcher.Batch]
	timers   []*timer
	took     []dispatch.Time
	served   int
	batches  int
	_        [64]byte
	at       atomic.Int64 // its clock
	_        [56]byte
}

// request is one with its only item.
type request struct {
	dispatcher.Request
	item dispatcher.Item
}

// add makes a worker for its part of a setting.
func (d *drive) add(s CoresSetting) error {
	w := &worker{drive: d, arrivals: newArrivals(s), wheel: newWheel[*dispatcher.Batch](s.Executors), took: shared.Linear(each, fixed, largest)}
	d.workers = append(d.workers, w)
	for _, of := range s.deployments(len(d.workers)) {
		g, err := d.dispatcher.Compile(of)
		if err != nil {
			return err
		}
		d.dispatcher.Install(g, nil, nil)
		for _, slot := range of.Slots {
			d.dispatcher.Register(dispatcher.Introduction{Name: slot.Executor, Service: of.Name(), Hardware: slot.Hardware}, true)
		}
		if members := g.Members(); members != nil {
			w.homes = append(w.homes, members...)
			continue
		}
		w.homes = append(w.homes, g)
	}
	return nil
}

// play hands over n arrivals.
func (w *worker) play(n int) {
	d := w.drive.dispatcher
	for n > 0 {
		for range min(n, stride) {
			a := w.arrivals.next()
			r := &request{}
			r.Generation, r.Gateway, r.Arrival, r.Deadline = w.homes[a.Class], w, a.Arrival, a.Deadline
			r.item.Request, r.item.Holder, r.item.Size = &r.Request, r, 1
			if d.Admit(r.Generation, a.Arrival, a.Deadline) {
				d.Arrive(&r.item)
			}
		}
		n -= stride
		now := w.arrivals.now
		w.at.Store(int64(now))
		w.drive.advance(now)
		for _, t := range w.timers {
			if t.at <= now {
				t.at = never
				t.f()
			}
		}
		w.wheel.ended(now, w.ended)
	}
	w.at.Store(int64(never))
}

func (w *worker) ended(b *dispatcher.Batch) {
	d := w.drive.dispatcher
	if b.Executor.Take(b.ID) != b {
		return
	}
	now := d.Done(b, dispatcher.Report{Compute: w.took[len(b.Items)-1]})
	for _, it := range b.Items {
		it.Request.End()
		d.Leave(it.Request, now, admission.InTime)
	}
}

// Start has the batch end when its time is over; see dispatcher.Gateway.
func (w *worker) Start(b *dispatcher.Batch, items []*dispatcher.Item, _ int) {
	w.served += len(items)
	w.batches++
	w.wheel.add(b, w.drive.now()+w.took[len(items)-1])
}

// Drop ends a request; see dispatcher.Gateway.
func (w *worker) Drop(it *dispatcher.Item, _ dispatcher.Drop) {
	it.Request.End()
	w.drive.dispatcher.Leave(it.Request, w.drive.now(), admission.GivenUp)
}

// timer is one of a worker's.
type timer struct {
	worker *worker
	at     dispatch.Time
	f      func()
}

// Reset sets the timer; see dispatcher.Timer.
func (t *timer) Reset(d time.Duration) bool {
	t.at = t.worker.drive.now() + d
	return true
}

// Stop takes it back; see dispatcher.Timer.
func (t *timer) Stop() bool {
	t.at = never
	return true
}

// Step drives the policy of the setting from this goroutine alone.
func Step(s CoresSetting) (CoresResult, error) {
	if err := s.check(); err != nil {
		return CoresResult{}, err
	}
	p, err := shared.New(s.Policy, s.pool())
	if err != nil {
		return CoresResult{}, err
	}
	d := &direct{policy: p, arrivals: newArrivals(s), wheel: newWheel[dispatch.ExecutorID](s.Executors), timer: never, took: shared.Linear(each, fixed, largest)}
	d.free = func(id dispatch.ExecutorID) { d.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: id}) }
	for id := range s.Executors {
		d.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(id)})
	}
	d.play(s.early())
	d.served, d.batches = 0, 0
	r := measureRun(func() { d.play(s.Requests) })
	r.Requests, r.Served, r.Batches = s.Requests, d.served, d.batches
	return r, nil
}

const never = dispatch.Time(1<<63 - 1)

// direct is a policy with all that happens to it.
type direct struct {
	policy   dispatch.Policy
	arrivals *coresArrivals
	wheel    wheel[dispatch.ExecutorID]
	free     func(dispatch.ExecutorID)
	timer    dispatch.Time
	took     []dispatch.Time
	actions  []dispatch.Action
	served   int
	batches  int
}

func (d *direct) play(n int) {
	for range n {
		r := d.arrivals.next()
		if d.timer <= r.Arrival {
			d.timer = never
			d.step(dispatch.Event{Kind: dispatch.Timer})
		}
		d.wheel.ended(r.Arrival, d.free)
		d.step(dispatch.Event{Kind: dispatch.Arrive, Request: r})
	}
}

func (d *direct) step(ev dispatch.Event) {
	now := d.arrivals.now
	d.actions = d.policy.Step(now, ev, d.actions[:0])
	for i := range d.actions {
		switch a := &d.actions[i]; a.Act {
		case dispatch.SetTimer:
			d.timer = a.At
		case dispatch.Start:
			d.wheel.add(a.Executor, now+d.took[len(a.Batch)-1])
			d.batches++
			d.served += len(a.Batch)
		}
	}
}

const (
	spoke  = dispatch.Time(50e3) // ends are late by up to this
	spokes = 4096                // further than the longest batch
)

// wheel holds the ends of batches by time.
type wheel[T any] struct {
	at   [spokes][]T
	turn int64 // the next spoke to be looked at
}

// newWheel makes room, so that measurements do not count its growth.
func newWheel[T any](executors int) wheel[T] {
	var w wheel[T]
	for i := range w.at {
		w.at[i] = make([]T, 0, 32+executors/64)
	}
	return w
}

func (w *wheel[T]) add(of T, at dispatch.Time) {
	t := max(w.turn, int64((at+spoke-1)/spoke))
	w.at[t%spokes] = append(w.at[t%spokes], of)
}

// ended calls free with all batches that have ended.
func (w *wheel[T]) ended(now dispatch.Time, free func(T)) {
	for ; dispatch.Time(w.turn)*spoke <= now; w.turn++ {
		s := &w.at[w.turn%spokes]
		for _, of := range *s {
			free(of)
		}
		*s = (*s)[:0]
	}
}
