package dispatcher

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// device is a device of a host, arbitrated between the stations whose executors share it, so
// that batches which are not due start only while no other executor needs it.
type device struct {
	dispatcher *Dispatcher
	number     int      // for admission control
	account    *account // of the services that use it; under Dispatcher.mu

	mu      sync.Mutex
	arbiter tc.Arbiter
	asking  map[int]asker // by user of the arbiter: the last to request it
	watch   stuckWatch[*Batch]
}

// asker is a lane of a station.
type asker struct {
	station *station
	lane    dispatch.ExecutorID
}

// device finds or makes the state of a host's device; an executor that names none
// has it for itself. Dispatcher.mu is held.
func (d *Dispatcher) device(host, name string) *device {
	key := host + "/" + name
	at := d.devices[key]
	if at == nil || name == "" {
		d.numbered++
		at = &device{number: d.numbered, dispatcher: d}
		at.watch.Now = d.options.Now
		at.watch.Timer = func() stuckTimer { return d.options.NewTimer(at.look) }
	}
	if name != "" {
		d.devices[key] = at
	}
	return at
}

func (d *device) begin(b *Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arbiter.Begin()
	d.watch.Begin(b, b.misses, b.stuck-b.At)
}

func (d *device) end(b *Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arbiter.End()
	d.watch.End(b)
}

// look wakes all stations where a batch of the device has become stuck, or no longer is.
func (d *device) look() {
	d.mu.Lock()
	changed := d.watch.Check()
	d.mu.Unlock()
	if changed {
		d.dispatcher.wakeStations()
	}
}

// unstick reports to policies that the executors of the device are back. No lock may be held.
func (d *device) unstick() {
	if d.watch.Freed() {
		d.dispatcher.wakeStations()
	}
}

// isStuck reports whether a batch of the executor's device is stuck and has missed a deadline.
func (e *Executor) isStuck() bool {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	return e.device.watch.Stuck()
}

// wakeStations has all stations look at their devices.
func (d *Dispatcher) wakeStations() {
	d.moves.Add(1)
	all := make(map[*station]bool)
	d.mu.Lock()
	for _, v := range d.services {
		for _, g := range v.generations() {
			for _, s := range g.stations {
				all[s] = true
			}
		}
	}
	d.mu.Unlock()
	for s := range all {
		s.handle(dispatch.Event{})
	}
}

// offer lets those that were refused the device request it again once it is idle, the most
// urgent first. No lock may be held.
func (d *device) offer() {
	for {
		d.mu.Lock()
		user := d.arbiter.Next()
		a, ok := d.asking[user]
		d.mu.Unlock()
		if !ok {
			return
		}
		a.station.handle(dispatch.Event{Kind: dispatch.DeviceIdle, Executor: a.lane})
	}
}

// arbitrate applies a policy's request for, or release of, the device of one of its executors,
// and returns the answer.
func (d *device) arbitrate(now dispatch.Time, a *dispatch.Action, user int, from asker) dispatch.Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.Act == dispatch.Ask {
		if d.asking == nil {
			d.asking = make(map[int]asker)
		}
		d.asking[user] = from
	}
	return d.arbiter.Decide(user, now, a)
}

// neighbours reports to the policy which executors have their devices for themselves, and which
// are stuck, where that has changed. The station's lock is held.
func (s *station) neighbours(now dispatch.Time) {
	moves := s.dispatcher.moves.Load()
	if moves == s.moves {
		return
	}
	s.moves = moves
	for i := range s.lanes {
		switch l := &s.lanes[i]; {
		case l.exec == nil || l.exec.caller:
		case l.known && l.exec.isStuck():
			l.known, l.held = false, l.batch == nil
			s.decide(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(i)})
		case l.known && l.alone != l.exec.alone():
			l.alone = !l.alone
			s.decide(now, dispatch.Event{Kind: dispatch.DeviceAlone, Executor: dispatch.ExecutorID(i), Alone: l.alone})
		case l.held:
			s.announce(now, dispatch.ExecutorID(i))
		}
	}
}

// slowRuns holds the slowest runs of modules on the kinds of hardware that they have run on.
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
	Timer func() stuckTimer // makes one that has Check called
	Now   func() dispatch.Time

	timer   stuckTimer    // nil until it is needed
	at      dispatch.Time // that it is set to; 0 where it is not
	running []watched[Batch]
	stuck   bool
	freed   atomic.Bool
}

type watched[Batch comparable] struct {
	batch          Batch
	misses, longer dispatch.Time
	behind         bool // others ran when it was sent, and none of them has ended
}

// Begin notes a batch that will be stuck and have missed a deadline by then; 0 and
// dispatch.Never are that it never is. Behind others it cannot run before one of them has
// ended; then any of those that wait may be the one that runs, so all have the time of the
// longest.
func (w *stuckWatch[Batch]) Begin(b Batch, misses, longer dispatch.Time) {
	if misses == 0 || misses == dispatch.Never {
		return
	}
	w.running = append(w.running, watched[Batch]{b, misses, longer, len(w.running) > 0})
	w.set()
}

// End forgets a batch.
func (w *stuckWatch[Batch]) End(b Batch) {
	w.running = slices.DeleteFunc(w.running, func(r watched[Batch]) bool { return r.batch == b })
	now, longest := w.Now(), dispatch.Time(0)
	for _, r := range w.running {
		longest = max(longest, r.longer)
	}
	for i := range w.running {
		r := &w.running[i]
		r.misses, r.behind = max(r.misses, now+longest), false
	}
	if w.set(); w.stuck && !w.any(now) {
		w.stuck = false
		w.freed.Store(true)
	}
}

// set has Check called when the first batch is stuck that is not, unless it is before.
func (w *stuckWatch[Batch]) set() {
	now, next := w.Now(), dispatch.Never
	for _, r := range w.running {
		if r.misses > now && !r.behind {
			next = min(next, r.misses)
		}
	}
	if next == dispatch.Never || w.at != 0 && w.at <= next {
		return // it will look then, and find the next time
	}
	if w.timer == nil {
		w.timer = w.Timer()
	}
	w.at = next
	w.timer.Reset(next - now)
}

func (w *stuckWatch[Batch]) any(now dispatch.Time) bool {
	return slices.ContainsFunc(w.running, func(r watched[Batch]) bool { return r.misses <= now && !r.behind })
}

// Check finds out whether a batch is stuck, and reports whether that has changed.
func (w *stuckWatch[Batch]) Check() (changed bool) {
	w.at = 0
	w.set()
	was := w.stuck
	w.stuck = w.any(w.Now())
	return w.stuck != was
}

// Stuck reports whether a batch is stuck and has missed a deadline.
func (w *stuckWatch[Batch]) Stuck() bool { return w.stuck }

// Freed reports, once and without the lock, that the last stuck batch has ended.
func (w *stuckWatch[Batch]) Freed() bool { return w.freed.Load() && w.freed.Swap(false) }
