package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Outage is a device that is lost, and may come back.
type Outage struct {
	Device int           // from 0, in the order of Result.Devices
	From   time.Duration // when it is lost
	To     time.Duration // when it is back; 0 for never
}

// change is one end of an outage.
type change struct {
	at     Time
	device int32
	back   bool
}

// deviceChanges lists the changes in order of time.
func deviceChanges(outages []Outage, devices int) ([]change, error) {
	var all []change
	for _, o := range outages {
		switch {
		case o.Device < 0 || o.Device >= devices:
			return nil, fmt.Errorf("simulate: there is no device %d to lose; there are %d, numbered from 0", o.Device, devices)
		case o.From < 0 || o.To != 0 && o.To <= o.From:
			return nil, fmt.Errorf("simulate: device %d cannot be lost from %v to %v", o.Device, o.From, o.To)
		}
		all = append(all, change{at: o.From, device: int32(o.Device)})
		if o.To > 0 {
			all = append(all, change{at: o.To, device: int32(o.Device), back: true})
		}
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

// changeDevices carries out the changes that are due.
func (e *engine) changeDevices() {
	for len(e.changes) > 0 && e.changes[0].at <= e.now {
		c := e.changes[0]
		e.changes = e.changes[1:]
		if c.back {
			e.returnDevice(c.device)
		} else {
			e.loseDevice(c.device)
		}
	}
	if e.scaled != nil {
		e.measure()
	}
	e.awaitChange()
}

// awaitChange sets when devices change next, or whether they are to is looked at.
func (e *engine) awaitChange() {
	next := e.nextMeasure()
	if len(e.changes) > 0 {
		next = min(next, e.changes[0].at)
	}
	if next != never {
		e.queue.Set(e.keys.change, next)
	}
}

func (e *engine) returnDevice(at int32) {
	d := &e.devices[at]
	if !d.lost {
		return
	}
	d.lost = false
	for _, p := range d.lanes {
		e.executorUp(p)
	}
}

func (e *engine) executorUp(p laneRef) {
	l := &e.stations[p.station].lanes[p.lane]
	e.countIdle(p.station, l.group, 1)
	e.step(p.station, &dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(p.lane), Group: l.group, Alone: e.devices[l.device].arbiter.Alone()})
}

// loseDevice takes a device away. What it held is queued once more, as by the
// gateway when a stream breaks; what is lost a second time is dropped.
func (e *engine) loseDevice(at int32) {
	d := &e.devices[at]
	if d.lost {
		return
	}
	d.lost, d.running, d.queue = true, 0, d.queue[:0]
	d.arbiter.Clear()
	var held []int32
	for _, p := range d.lanes {
		l := &e.stations[p.station].lanes[p.lane]
		first, busy := 2*l.index, false
		for k := first; k < first+2; k++ {
			f := &e.flights[k]
			if f.state == running {
				d.busy += max(0, min(e.now, e.end)-max(f.begun, e.begin))
			}
			if f.state != idle {
				busy = true
				held = append(held, f.items...)
				e.batchEnded(f.items, 0, f.sent, 0, 0)
				e.queue.Drop(k)
				f.state = idle
			}
		}
		if !busy {
			e.countIdle(p.station, l.group, -1)
		}
	}
	for _, p := range d.lanes {
		e.step(p.station, &dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(p.lane)})
	}
	for _, i := range held {
		e.retry(i)
	}
}

func (e *engine) retry(i int32) {
	it := &e.items[i]
	switch {
	case it.abandoned:
		if it.measured {
			e.loads[it.load].nodes[it.node].tally.withdrawn++
		}
		e.freeItem(i)
	case it.retried:
		it.state = dropped
		e.dropped = append(e.dropped, droppedItem{i, dispatch.Late})
		e.failDropped()
	default:
		it.retried, it.state = true, waiting
		it.turn++
		e.countWaiting(it, 1)
		ev := dispatch.Event{Kind: dispatch.Arrive}
		e.describe(i, &ev.Request)
		e.step(e.loads[it.load].nodes[it.node].station, &ev)
	}
}
