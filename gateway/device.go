package gateway

import (
	"math"
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// device keeps books on a device for the stations whose executors share it, so
// that batches which are not due start only while nobody else needs it.
type device struct {
	number int // for admission control

	mu     sync.Mutex
	book   dispatch.Device
	asking []*station // by the place of the executor that it asked for last
}

// device finds or makes the books of a host's device; an executor that names none
// has it for itself. Gateway.mu is held.
func (g *Gateway) device(host, name string) *device {
	key := host + "/" + name
	d := g.devices[key]
	if d == nil || name == "" {
		g.numbered++
		d = &device{number: g.numbered}
	}
	if name != "" {
		g.devices[key] = d
	}
	return d
}

// settle gives the executor its place on its device.
func (e *executor) settle(d *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.device, e.place = d, d.book.Add()
}

// resign gives it back.
func (e *executor) resign() {
	e.device.mu.Lock()
	e.device.book.Remove(e.place)
	e.device.mu.Unlock()
	e.device.offer()
}

// rest notes that no schedule needs the executor.
func (e *executor) rest() {
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	e.device.book.Rest(e.place)
}

func (d *device) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.Begin()
}

func (d *device) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.book.End()
}

// offer lets those that were refused the device ask again once it is idle, the
// most urgent first. No lock may be held.
func (d *device) offer() {
	for {
		d.mu.Lock()
		place := d.book.Turn()
		var s *station
		if place >= 0 {
			s = d.asking[place]
		}
		d.mu.Unlock()
		if s == nil {
			return
		}
		s.tick()
	}
}

// sharing answers a policy for its station; the station's lock is held.
type sharing struct{ station *station }

// of is the executor of a lane; nil when it is just being removed.
func (s *sharing) of(id dispatch.ExecutorID) *executor { return s.station.lanes[id].exec }

// Reserve implements dispatch.Sharing.
func (s *sharing) Reserve(id dispatch.ExecutorID, t dispatch.DeviceTask) {
	if e := s.of(id); e != nil {
		e.device.mu.Lock()
		defer e.device.mu.Unlock()
		e.device.book.Reserve(e.place, t)
	}
}

// Early implements dispatch.Sharing.
func (s *sharing) Early(id dispatch.ExecutorID, now dispatch.Time, b dispatch.EarlyBatch) (ok bool, again dispatch.Time) {
	e := s.of(id)
	if e == nil {
		return false, math.MaxInt64
	}
	d := e.device
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.asking) <= e.place {
		d.asking = append(d.asking, nil)
	}
	d.asking[e.place] = s.station
	return d.book.Early(e.place, now, b)
}

// Needed implements dispatch.Sharing.
func (s *sharing) Needed(id dispatch.ExecutorID, at, period dispatch.Time) {
	if e := s.of(id); e != nil {
		e.device.mu.Lock()
		defer e.device.mu.Unlock()
		e.device.book.Needed(e.place, at, period)
	}
}

// Alone implements dispatch.Sharing.
func (s *sharing) Alone(id dispatch.ExecutorID) bool {
	e := s.of(id)
	if e == nil {
		return false
	}
	e.device.mu.Lock()
	defer e.device.mu.Unlock()
	return e.device.book.Alone()
}
