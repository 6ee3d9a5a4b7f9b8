package cores

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher/rank"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

const (
	stride  = 64   // arrivals between two looks at what the executors do
	backlog = 4096 // arrivals before a worker from which on the producer waits,
	behind  = 0.03 // or those of this part of the SLO
	nap     = 50 * time.Microsecond
)

// Run drives a scheduler of s.Workers workers from this goroutine.
func Run(s Setting) (Result, error) {
	if err := s.check(); err != nil {
		return Result{}, err
	}
	d := &drive{arrivals: newArrivals(s), wheel: newWheel(s.Executors), most: min(backlog, int(s.rate()*slo.Seconds()*behind)), took: shared.Linear(each, fixed, largest)}
	scheduler, err := rank.New(rank.Options{Policy: s.Policy, Pool: s.pool(), Workers: s.Workers, Now: d.now, Start: d.start, Drop: d.drop})
	if err != nil {
		return Result{}, err
	}
	defer scheduler.Close()
	d.scheduler, d.feed, d.free = scheduler, scheduler.NewFeed(), scheduler.ExecutorFree
	for id := range s.Executors {
		if err := scheduler.ExecutorUp(dispatch.ExecutorID(id), 0); err != nil {
			return Result{}, err
		}
	}
	d.play(s.early())
	served, batches := d.counts()
	r := measure(func() {
		d.play(s.Requests)
		d.wait(0)
	})
	r.Requests, r.Served, r.Batches = s.Requests, -served, -batches
	served, batches = d.counts()
	r.Served, r.Batches = r.Served+served, r.Batches+batches
	return r, nil
}

// drive is a scheduler with all that happens to it.
type drive struct {
	scheduler *rank.Scheduler
	feed      *rank.Feed
	arrivals  *arrivals
	wheel     wheel
	free      func(dispatch.ExecutorID)
	took      []dispatch.Time
	most      int // arrivals before a worker
	clock     atomic.Int64
	_         [56]byte

	mu      sync.Mutex
	begun   []ending // batches that the producer has not seen
	seen    []ending
	served  int
	batches int
}

type ending struct {
	id dispatch.ExecutorID
	at dispatch.Time
}

func (d *drive) now() dispatch.Time { return dispatch.Time(d.clock.Load()) }

func (d *drive) counts() (served, batches int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.served, d.batches
}

// play hands over n arrivals, as fast as the workers take them.
func (d *drive) play(n int) {
	for n > 0 {
		for range min(n, stride) {
			d.feed.Add(d.arrivals.next())
		}
		n -= stride
		d.clock.Store(int64(d.arrivals.now))
		d.emulate()
		if d.feed.Behind() > d.most {
			d.wait(d.most / 2)
		}
	}
	d.feed.Flush()
}

// wait returns when no more arrivals than that lie before the workers.
func (d *drive) wait(most int) {
	for d.scheduler.Backlog() > most {
		time.Sleep(nap)
	}
}

// emulate tells the scheduler of batches that have ended.
func (d *drive) emulate() {
	d.mu.Lock()
	d.begun, d.seen = d.seen[:0], d.begun
	d.mu.Unlock()
	for _, e := range d.seen {
		d.wheel.add(e.id, e.at)
	}
	d.wheel.ended(d.arrivals.now, d.free)
}

// start is called by workers.
func (d *drive) start(id dispatch.ExecutorID, _ int32, batch []dispatch.RequestID) {
	at := d.now() + d.took[len(batch)-1]
	d.mu.Lock()
	d.served += len(batch)
	d.batches++
	d.begun = append(d.begun, ending{id, at})
	d.mu.Unlock()
}

func (d *drive) drop(dispatch.RequestID, dispatch.Reason) {}
