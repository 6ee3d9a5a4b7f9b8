package simulate

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
	"github.com/harpagon/harpagon/scheduler/flow"
)

// flight is a batch on its way to a device, in front of it, or on it.
type flight struct {
	station int32
	lane    int32
	class   int32
	state   flightState
	due     Time // when the first of it should leave its module
	ready   Time // when it has reached the device
	sent    Time
	begun   Time
	seq     uint64
	items   []int32
	size    int32 // of the items together
}

type flightState uint8

const (
	idle flightState = iota
	travelling
	queued
	running
)

// device runs batches, those due first before others. Executors of several
// modules may share one; their batches never run side by side, as in a worker.
type device struct {
	name     string
	hardware string
	number   int   // of its hardware, from 0
	owner    int32 // executor of the batches that run
	running  int32
	queue    []int32 // flights
	lost     bool
	leaving  bool       // ends after what it runs
	shared   bool       // by groups of plans
	arbiter  tc.Arbiter // of batches that are on their way or run, for early starts
	busy     Time
	batches  int64
	lanes    []laneRef
}

// laneRef names a lane of a station.
type laneRef struct{ station, lane int32 }

// start sends a batch to an executor.
func (e *engine) start(at int32, a *dispatch.Action) {
	s := &e.stations[at]
	if a.Executor < 0 || int(a.Executor) >= len(s.lanes) || len(a.Batch) == 0 {
		e.violation(at, "starts %d requests on executor %d of %d", len(a.Batch), a.Executor, len(s.lanes))
		return
	}
	l := &s.lanes[a.Executor]
	k := e.freeFlight(at, int32(a.Executor))
	if k < 0 || e.devices[l.device].lost {
		e.violation(at, "starts a batch on executor %d, which is busy or gone", a.Executor)
		return
	}
	f := &e.flights[k]
	e.seq++
	f.station, f.lane, f.class, f.seq, f.items, f.size = at, int32(a.Executor), a.Class, e.seq, f.items[:0], 0
	f.due = never
	for _, id := range a.Batch {
		i := e.find(id)
		if i < 0 || e.items[i].state != waiting {
			e.violation(at, "starts request %d, which does not wait", id)
			return
		}
		e.items[i].state = sent
		f.due = min(f.due, e.due(i))
		f.items = append(f.items, i)
		f.size += e.items[i].size
	}
	if a.Due != 0 {
		f.due = a.Due
	}
	if first := &e.items[f.items[0]]; e.admission != nil {
		e.admission.Start(e.now, e.loads[first.load].number, int(first.node), int(l.group), len(f.items))
	}
	e.countIdle(at, l.group, -1)
	f.sent = e.now
	e.devices[l.device].arbiter.Begin()
	f.ready = e.now + e.travel(len(f.items))
	if ahead := &e.flights[k^1]; ahead.state == travelling {
		f.ready = max(f.ready, ahead.ready) // what is sent to a device comes in order
	}
	if f.ready > e.now {
		f.state = travelling
		e.queue.Set(k, f.ready)
		return
	}
	e.enqueue(k)
}

// travel is the time that a batch of n takes through the network to its device.
func (e *engine) travel(n int) dispatch.Time {
	if e.delays == nil {
		return e.planned.Of(n)
	}
	return e.delay.Draw(e.delays, n)
}

// freeFlight is a flight that the lane has free, or -1. Only where the network has a
// delay may a batch be sent to an executor that still runs one.
func (e *engine) freeFlight(at, lane int32) int32 {
	first := 2 * e.stations[at].lanes[lane].index
	switch {
	case e.flights[first].state == idle && e.flights[first+1].state == idle:
		return first
	case e.planned == (dispatch.Delay{}):
		return -1
	case e.flights[first].state == idle:
		return first
	case e.flights[first+1].state == idle:
		return first + 1
	}
	return -1
}

// due is when the item should leave its module.
func (e *engine) due(i int32) Time {
	it := &e.items[i]
	a := &e.loads[it.load]
	n := &a.nodes[it.node]
	return n.Due(it.arrival, it.arrival+a.slo, n.kept)
}

// enqueue puts a batch that has arrived in front of its device.
func (e *engine) enqueue(k int32) {
	d := e.stations[e.flights[k].station].lanes[e.flights[k].lane].device
	e.flights[k].state = queued
	e.devices[d].queue = append(e.devices[d].queue, k)
	e.startNext(d)
}

// startNext lets a device begin what it can: the batch due first, and beside it
// others of the same executor.
func (e *engine) startNext(at int32) {
	d := &e.devices[at]
	for len(d.queue) > 0 {
		first := 0
		for i := 1; i < len(d.queue); i++ {
			a, b := &e.flights[d.queue[i]], &e.flights[d.queue[first]]
			if a.due < b.due || a.due == b.due && a.seq < b.seq {
				first = i
			}
		}
		k := d.queue[first]
		l := e.lane(k)
		if d.running > 0 && (d.owner != l.executor || d.running >= l.concurrency) {
			return
		}
		d.queue = append(d.queue[:first], d.queue[first+1:]...)
		d.owner = l.executor
		d.running++
		e.execute(k)
	}
}

func (e *engine) lane(k int32) *lane {
	f := &e.flights[k]
	return &e.stations[f.station].lanes[f.lane]
}

// execute begins a batch.
func (e *engine) execute(k int32) {
	f := &e.flights[k]
	s, group := &e.stations[f.station], e.lane(k).group
	table := s.tables[f.class][group]
	if int(f.size) > len(table) {
		e.violation(f.station, "starts a batch of %d, where %d is the largest", f.size, len(table))
		return
	}
	took := table[f.size-1]
	switch {
	case s.longest != nil && s.longest[f.class][group] != nil:
		took = DrawLatency(e.random, took, s.longest[f.class][group][f.size-1])
	case e.noise > 0:
		took = max(1, Time(float64(took)*drawStretch(e.random, e.noise)))
	}
	f.state, f.begun = running, e.now
	e.queue.Set(k, e.now+took)
}

// flightEvent is the next thing that happens to a batch: it arrives, or it is
// done.
func (e *engine) flightEvent(k int32) {
	e.queue.Drop(k)
	if e.flights[k].state == travelling {
		e.enqueue(k)
		return
	}
	e.finish(k)
}

// finish ends a batch: its executor is reported free, the device goes on, and its
// requests go on or are answered.
func (e *engine) finish(k int32) {
	f := &e.flights[k]
	l := e.lane(k)
	e.countBusy(k)
	e.finished = append(e.finished[:0], f.items...)
	e.countBatch(f)
	at, executor, begun := f.station, dispatch.ExecutorID(f.lane), f.begun
	f.state = idle
	d := l.device
	e.devices[d].running--
	e.devices[d].arbiter.End()
	e.countIdle(at, l.group, 1)
	e.batchEnded(e.finished, int(l.group), f.sent, e.now-begun, e.now-f.sent)
	switch {
	case !e.devices[d].leaving:
		e.step(at, &dispatch.Event{Kind: dispatch.ExecutorFree, Executor: executor, Took: e.now - begun})
	case e.idles(&e.devices[d]):
		e.leaveNow(d)
	}
	e.startNext(d) // not before the executor's next batch is there, which may be due first
	e.offer(d)
	each := (e.now - begun) / Time(len(e.finished))
	for _, i := range e.finished {
		e.complete(i, each)
	}
}

// countBusy counts the time that a batch has taken of its device, as far as it
// lies in the time that is measured.
func (e *engine) countBusy(k int32) {
	f := &e.flights[k]
	d := &e.devices[e.lane(k).device]
	d.busy += max(0, min(e.now, e.end)-max(f.begun, e.begin))
	d.batches++
	if e.observer.Batch != nil {
		e.observer.Batch(e.span(f))
	}
}

// countBatch adds a batch to the figures of its module.
func (e *engine) countBatch(f *flight) {
	first := &e.items[f.items[0]]
	if f.begun >= e.begin {
		t := &e.loads[first.load].nodes[first.node].tally
		t.batches++
		t.batched += int64(len(f.items))
	}
}

// complete takes note that an item has been computed, which took so much of its device.
func (e *engine) complete(i int32, spent Time) {
	it := &e.items[i]
	a := &e.loads[it.load]
	n := &a.nodes[it.node]
	if it.measured {
		a.tally.spent += spent
		n.tally.complete(e.now-it.ready, e.now-(it.arrival+n.Offset+n.Budget), e.now <= it.arrival+a.slo-n.kept)
	}
	switch {
	case it.abandoned:
		e.freeItem(i)
	case it.request < 0:
		e.answer(a, it.arrival, spent, it.stream, it.measured)
		e.leave(it.load, it.arrival, true)
		e.countSpent(it.load, spent, e.now <= it.arrival+a.slo)
		load, stream, number := it.load, it.stream, it.number
		e.freeItem(i)
		e.gone(load, stream, number)
	default:
		it.state = done
		q := e.requests[it.request]
		done := flow.Item{Node: it.node, Frame: it.frame}
		load, node, stream, number := it.load, it.node, q.stream, q.number
		e.launch(it.request, q.Complete(done, e.ready[:0]))
		e.passed(load, node, stream, number)
	}
}

// span describes a batch that ends now.
func (e *engine) span(f *flight) Batch {
	first := &e.items[f.items[0]]
	a, l := &e.loads[first.load], &e.stations[f.station].lanes[f.lane]
	b := Batch{
		Device: int(l.device), Pipeline: a.name, Module: a.nodes[first.node].Module,
		Size: int(f.size), Begin: f.begun, End: e.now, Oldest: first.ready, Group: int(l.group),
	}
	e.seen = e.seen[:0]
	for _, i := range f.items {
		it := &e.items[i]
		b.Oldest = min(b.Oldest, it.ready)
		e.seen = append(e.seen, Request{Load: int(it.load), Ready: it.ready})
	}
	b.Requests = e.seen
	return b
}
