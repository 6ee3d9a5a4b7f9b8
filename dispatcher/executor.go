package dispatcher

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire/queue"
)

// Executor is a dispatcher's record of one that runs batches.
type Executor struct {
	Name     string // placement.Slot.Executor
	Service  string
	Hardware string
	Holder   any // what the gateway has of it

	dispatcher  *Dispatcher
	device      *device
	place       int // on the device
	concurrency int
	caller      bool // its batches are calls of a function; see calls.go
	group       int32

	epoch atomic.Uint64 // by which it is ordered to run batches; 0 where its gateway does

	station *station // that it serves or has served last; under Dispatcher.mu

	host  string
	since dispatch.Time // when it was attached

	mu      sync.Mutex
	gone    bool // its stream has ended
	running []*Batch
	away    int // lanes whose engines are being loaded again
}

// Introduction is what an executor sends of itself.
type Introduction struct {
	Name, Service          string
	Host, Device, Hardware string
	Concurrency            int // batches side by side; 0 means 1
	Holder                 any
}

// Register adds an executor, in place of one of the same name, and puts it to work where the
// current generation of its service has it. One that does not fit its module gets no work.
func (d *Dispatcher) Register(i Introduction, fits bool) *Executor {
	e := d.register(i)
	if fits {
		d.Activate(e)
	}
	return e
}

// register makes an executor known.
func (d *Dispatcher) register(i Introduction) *Executor {
	e := &Executor{
		dispatcher: d, Name: i.Name, Service: i.Service, Hardware: i.Hardware, Holder: i.Holder,
		host: i.Host, since: d.Now(), concurrency: max(i.Concurrency, 1),
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e.settle(d.device(i.Host, i.Device))
	if before := d.executors[e.Name]; before != nil && before.station != nil {
		before.station.remove(before)
	}
	d.executors[e.Name] = e
	return e
}

// Activate puts an executor to work where the current generation has it.
func (d *Dispatcher) Activate(e *Executor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.assign(e)
}

// assign adds the executor to the station that the newest generation of its service has
// for it which has a slot for it: one of an older generation serves the requests that
// are left of that. Dispatcher.mu is held.
func (d *Dispatcher) assign(e *Executor) {
	v := d.services[e.Service]
	if v == nil {
		return
	}
	for _, g := range v.generations() {
		slot := g.Deployment.Slot(e.Name)
		if slot == nil {
			continue
		}
		if s := g.stationOf(slot.Module); s != nil {
			e.station = s
			s.add(member{exec: e, group: int32(slot.Group)})
			d.guard(g)
		}
		return
	}
}

// assignIdle assigns the executors of a generation that serve nothing. Dispatcher.mu is
// held.
func (d *Dispatcher) assignIdle(g *Generation) {
	for _, slot := range g.Deployment.Slots {
		if e := d.executors[slot.Executor]; e != nil && e.station == nil {
			d.assign(e)
		}
	}
}

// Detach takes the executor out of its station: it gets no more batches.
func (d *Dispatcher) Detach(e *Executor) {
	d.mu.Lock()
	s := e.station
	d.mu.Unlock()
	if s != nil {
		s.remove(e)
	}
}

// Release detaches an executor for good and notifies dispatchers elsewhere.
func (d *Dispatcher) Release(e *Executor) {
	d.Detach(e)
	d.eachLink(func(l *Link) { l.conn.Send(&queue.Message{Kind: queue.Release, Text: []byte(e.Name)}) })
}

// Ready notes that an engine of the executor is loaded again.
func (d *Dispatcher) Ready(e *Executor) {
	d.mu.Lock()
	s := e.station
	d.mu.Unlock()
	if s == nil {
		e.addAway(-1)
		return
	}
	s.reopen(e)
}

// Prestart lets the next batch start on the executor while that with the id still runs,
// in which the engine will have spent the time given.
func (d *Dispatcher) Prestart(e *Executor, id uint64, took dispatch.Time) {
	e.mu.Lock()
	i := slices.IndexFunc(e.running, func(b *Batch) bool { return b.ID == id })
	var b *Batch
	if i >= 0 {
		b = e.running[i]
	}
	e.mu.Unlock()
	if b != nil {
		b.station.soon(b, took)
	}
}

// together is the time within which the executors of a dead host are lost: that is one loss to
// items that have moved from one to the next, unless that was attached after the first was lost.
const together = time.Second

// Lost removes an executor that is gone. What it still held is queued again or given up; before
// that, tell is called for every batch.
func (d *Dispatcher) Lost(e *Executor, tell func(*Batch)) {
	d.forget(e, func(b *Batch) {
		tell(b)
		b.lack()
		now := d.Now()
		b.accountEnd(-1, now, 0)
		for _, it := range b.Items {
			together := e.host != "" && it.lost != nil && it.lost.host == e.host && now-it.lost.at < together && e.since <= it.lost.at
			it.lost = &loss{now, e.host}
			d.again(it, together)
		}
	})
}

// Abandon forgets an executor that is gone. What it held comes again from the gateways,
// which have lost it, too, or have answers.
func (d *Dispatcher) Abandon(e *Executor) {
	d.forget(e, func(b *Batch) { b.accountEnd(-1, d.Now(), 0) })
}

// forget takes out an executor that is gone, with what it held.
func (d *Dispatcher) forget(e *Executor, each func(*Batch)) {
	d.mu.Lock()
	if d.executors[e.Name] == e {
		delete(d.executors, e.Name) // first, so that no Install finds it
		if v := d.services[e.Service]; v != nil {
			d.guard(v.current)
		}
	}
	d.mu.Unlock()
	d.Detach(e)
	e.mu.Lock()
	held := e.running
	e.running, e.gone = nil, true
	e.mu.Unlock()
	for _, b := range held {
		e.device.end(b)
	}
	e.releaseDevice()
	e.device.unstick()
	for _, b := range held {
		each(b)
	}
}

// again queues an item again that was lost, or that no engine has seen.
func (d *Dispatcher) again(it *Item, untouched bool) {
	if !d.Requeue(it, untouched) {
		it.Request.Gateway.Drop(it, LostTwice)
	}
}

// enter notes a batch that is to start; false where the executor is gone.
func (e *Executor) enter(b *Batch) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return false
	}
	b.ID, b.Executor, b.Whole.Epoch = e.dispatcher.started.Add(1), e, max(b.Whole.Epoch, e.epoch.Load())
	e.running = append(e.running, b)
	e.device.begin(b)
	return true
}

// Take forgets a batch that has come back and returns it for Done; nil when it is
// not known.
func (e *Executor) Take(id uint64) *Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.running, func(b *Batch) bool { return b.ID == id })
	if i < 0 {
		return nil
	}
	b := e.running[i]
	e.device.end(b)
	e.running = slices.Delete(e.running, i, i+1)
	return b
}

// Started is a batch that runs and was started by that epoch; nil where there is none.
func (e *Executor) Started(epoch, id uint64) *Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.running, func(b *Batch) bool { return b.ID == id && b.Whole.Epoch == epoch })
	if i < 0 {
		return nil
	}
	return e.running[i]
}

// Running are the batches that it holds.
func (e *Executor) Running() []*Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.running)
}

// SetEpoch notes by which epoch its service is decided, and reports whether that is new.
func (e *Executor) SetEpoch(epoch uint64) bool {
	return epoch > 0 && e.epoch.Swap(epoch) != epoch
}

// Executor is the executor of that name; nil where it is not known.
func (d *Dispatcher) Executor(name string) *Executor {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.executors[name]
}

// Idle reports whether the executor holds nothing.
func (e *Executor) Idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.running) == 0
}

// addAway notes that engines of the executor are away, or back where n is
// negative. The lock of the station that it serves is held.
func (e *Executor) addAway(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = max(e.away+n, 0)
}

// enginesAway is the number of engines that are away.
func (e *Executor) enginesAway() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.away
}

// forgetLanes makes the station forget where the executor's batches run.
func (e *Executor) forgetLanes(s *station) {
	e.rest()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, b := range e.running {
		if b.station == s {
			b.lane, b.group = -1, -1
		}
	}
}

func (e *Executor) runningOf(s *station) []*Batch {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*Batch
	for _, b := range e.running {
		if b.station == s {
			all = append(all, b)
		}
	}
	return all
}

// settle makes the executor a user of its device.
func (e *Executor) settle(d *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.device, e.place = d, d.arbiter.Add()
	e.dispatcher.moves.Add(1)
}

// releaseDevice ends what it has of the device.
func (e *Executor) releaseDevice() {
	e.device.mu.Lock()
	e.device.arbiter.Remove(e.place)
	delete(e.device.asking, e.place)
	e.dispatcher.moves.Add(1)
	e.device.mu.Unlock()
	e.device.offer()
}

// rest notes that no plan needs the executor.
func (e *Executor) rest() {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	e.device.arbiter.NeedNothing(e.place)
}

// alone reports whether the executor has its device for itself.
func (e *Executor) alone() bool {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	return e.device.arbiter.Alone()
}
