package dispatcher

import (
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// device is a device of a host, arbitrated between the stations whose executors share it, so
// that batches which are not due start only while nobody else needs it.
type device struct {
	dispatcher *Dispatcher
	number     int      // for admission control
	account    *account // of the services that use it; under Dispatcher.mu

	mu      sync.Mutex
	arbiter tc.Arbiter
	asking  map[int]asker // by user of the arbiter: who asked last for it
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
	d.watch.Begin(b, b.misses)
}

func (d *device) end(b *Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arbiter.End()
	d.watch.End(b)
}

// look has all stations hear where a batch of the device is stuck, or is no more.
func (d *device) look() {
	d.mu.Lock()
	changed := d.watch.Look()
	d.mu.Unlock()
	if changed {
		d.dispatcher.rouse()
	}
}

// unstick tells policies that the executors of the device are back. No lock may be held.
func (d *device) unstick() {
	if d.watch.Freed() {
		d.dispatcher.rouse()
	}
}

// isStuck says whether a batch of the executor's device is stuck and has missed a deadline.
func (e *Executor) isStuck() bool {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	return e.device.watch.Stuck()
}

// rouse has all stations look at their devices.
func (d *Dispatcher) rouse() {
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

// offer lets those that were refused the device ask again once it is idle, the
// most urgent first. No lock may be held.
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

// arbitrate passes on what a policy asks or tells of the device of one of its executors, and
// returns the answer. The station's lock is held. An executor that is just being removed is
// granted nothing.
func (s *station) arbitrate(now dispatch.Time, a *dispatch.Action) (answer dispatch.Event) {
	refused := dispatch.Event{Kind: dispatch.Refused, Executor: a.Executor, At: dispatch.Never}
	e := s.lanes[a.Executor].exec
	if e == nil {
		if a.Act == dispatch.Ask {
			return refused
		}
		return answer
	}
	d := e.device
	d.mu.Lock()
	defer d.mu.Unlock()
	switch a.Act {
	case dispatch.Need:
		d.arbiter.Need(e.place, a.At, *a.Reservation)
	case dispatch.Release:
		d.arbiter.Release()
	case dispatch.Ask:
		if d.asking == nil {
			d.asking = make(map[int]asker)
		}
		d.asking[e.place] = asker{s, a.Executor}
		ok, again := d.arbiter.Ask(e.place, now, a.At, a.Due, a.Reservation != nil)
		if ok {
			return dispatch.Event{Kind: dispatch.Granted, Executor: a.Executor}
		}
		refused.At = again
		return refused
	}
	return answer
}

// neighbours tells the policy which executors have their devices for themselves, and which are
// stuck, where that has changed. The station's lock is held.
func (s *station) neighbours(now dispatch.Time, fx []effect) []effect {
	moves := s.dispatcher.moves.Load()
	if moves == s.moves {
		return fx
	}
	s.moves = moves
	for i := range s.lanes {
		switch l := &s.lanes[i]; {
		case l.exec == nil || l.exec.caller:
		case l.known && l.exec.isStuck():
			l.known, l.held = false, l.batch == nil
			fx = s.decide(now, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(i)}, fx)
		case l.known && l.alone != l.exec.alone():
			l.alone = !l.alone
			fx = s.decide(now, dispatch.Event{Kind: dispatch.DeviceAlone, Executor: dispatch.ExecutorID(i), Alone: l.alone}, fx)
		case l.held:
			fx = s.know(now, dispatch.ExecutorID(i), fx)
		}
	}
	return fx
}
