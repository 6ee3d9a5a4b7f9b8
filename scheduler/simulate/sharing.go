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

// Reserve implements dispatch.Sharing.
func (s sharing) Reserve(id dispatch.ExecutorID, t dispatch.DeviceTask) {
	d, place := s.at(id)
	d.Reserve(place, t)
}

// Early implements dispatch.Sharing.
func (s sharing) Early(id dispatch.ExecutorID, now Time, b dispatch.EarlyBatch) (ok bool, again Time) {
	d, place := s.at(id)
	return d.Early(place, now, b)
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

// offer lets those that were refused a shared device ask again, now that a batch
// has left it.
func (e *engine) offer(at int32) {
	d := &e.devices[at]
	for place := d.book.Turn(); place >= 0; place = d.book.Turn() {
		e.step(d.lanes[place].station, dispatch.Event{Kind: dispatch.Timer})
	}
}
