package simulate

import "github.com/harpagon/harpagon/scheduler/dispatch"

// sharing tells a station of the devices that its executors share with others.
type sharing struct {
	engine  *engine
	station int32
}

func (s sharing) at(id dispatch.ExecutorID) (*dispatch.Device, int) {
	l := &s.engine.stations[s.station].lanes[id]
	return &s.engine.devices[l.device].book, l.place
}

// Early implements dispatch.Sharing.
func (s sharing) Early(id dispatch.ExecutorID, now, end Time) (ok bool, again Time) {
	d, _ := s.at(id)
	return d.Early(now, end)
}

// Needed implements dispatch.Sharing.
func (s sharing) Needed(id dispatch.ExecutorID, at, period Time) {
	d, place := s.at(id)
	d.Needed(place, at, period)
}

// Alone implements dispatch.Sharing.
func (s sharing) Alone(id dispatch.ExecutorID) bool {
	d, _ := s.at(id)
	return d.Alone()
}

// offer lets those that share a device look whether they may start early, now
// that a batch has left it.
func (e *engine) offer(at int32) {
	d := &e.devices[at]
	if !d.shared {
		return
	}
	for i := range d.lanes {
		if d.book.Idle() {
			e.step(d.lanes[i].station, dispatch.Event{Kind: dispatch.Timer})
		}
	}
}
