package experiments

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/scheduler/dispatch"
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

// newTimer gives the timer to the worker that is being made, whose station asks for it.
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
