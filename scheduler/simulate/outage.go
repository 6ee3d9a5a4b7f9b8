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

// plot lists the changes in order of time.
func plot(outages []Outage, devices int) ([]change, error) {
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

// changeDevices carries out what the script says for now.
func (e *engine) changeDevices() {
	for len(e.script) > 0 && e.script[0].at <= e.now {
		c := e.script[0]
		e.script = e.script[1:]
		if c.back {
			e.gain(c.device)
		} else {
			e.lose(c.device)
		}
	}
	if len(e.script) > 0 {
		e.cal.Set(e.keys.script, e.script[0].at)
	}
}

func (e *engine) gain(at int32) {
	d := &e.devices[at]
	if !d.lost {
		return
	}
	d.lost = false
	for _, p := range d.lanes {
		e.up(p)
	}
}

func (e *engine) up(p place) {
	l := &e.stations[p.station].lanes[p.lane]
	e.idles(p.station, l.group, 1)
	e.step(p.station, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: dispatch.ExecutorID(p.lane), Group: l.group, Alone: e.devices[l.device].arbiter.Alone()})
}

// lose takes a device away. What it held is queued once more, as by the
// gateway when a stream breaks; the second time a request has no luck.
func (e *engine) lose(at int32) {
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
				e.ended(f.items, 0, 0, 0)
				e.cal.Drop(k)
				f.state = idle
			}
		}
		if !busy {
			e.idles(p.station, l.group, -1)
		}
	}
	for _, p := range d.lanes {
		e.step(p.station, dispatch.Event{Kind: dispatch.ExecutorGone, Executor: dispatch.ExecutorID(p.lane)})
	}
	for _, i := range held {
		e.again(i)
	}
}

func (e *engine) again(i int32) {
	it := &e.items[i]
	switch {
	case it.orphan:
		if it.measured {
			e.apps[it.app].nodes[it.node].tally.withdrawn++
		}
		e.freeItem(i)
	case it.again:
		it.state = fell
		e.fallen = append(e.fallen, fallen{i, dispatch.Late})
		e.settle()
	default:
		it.again, it.state = true, waiting
		it.turn++
		e.waits(it, 1)
		e.step(e.apps[it.app].nodes[it.node].station, dispatch.Event{Kind: dispatch.Arrive, Request: e.known(i)})
	}
}
