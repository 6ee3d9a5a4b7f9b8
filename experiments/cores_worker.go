package experiments

import (
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

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
