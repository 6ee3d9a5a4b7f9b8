package gateway

import (
	"math"
	"slices"
	"sync"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// device keeps books on a device for the stations whose executors share it, so
// that batches which are not due start only while nobody else needs it.
type device struct {
	mu      sync.Mutex
	book    dispatch.Device
	waiting []*station // that have asked while it was taken
}

// device finds or makes the books of a host's device; an executor that names none
// has it for itself. Gateway.mu is held.
func (g *Gateway) device(host, name string) *device {
	if name == "" {
		return &device{}
	}
	key := host + "/" + name
	d := g.devices[key]
	if d == nil {
		d = &device{}
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
	e.device.book.Needed(e.place, math.MaxInt64, 0)
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

// offer lets those who have asked ask again, once the device is idle. No lock may
// be held.
func (d *device) offer() {
	d.mu.Lock()
	if !d.book.Idle() || len(d.waiting) == 0 {
		d.mu.Unlock()
		return
	}
	list := d.waiting
	d.waiting = nil
	d.mu.Unlock()
	for _, s := range list {
		s.tick()
	}
}

// sharing answers a policy for its station; the station's lock is held.
type sharing struct{ station *station }

// of is the executor of a lane; nil when it is just being removed.
func (s *sharing) of(id dispatch.ExecutorID) *executor { return s.station.lanes[id].exec }

// Early implements dispatch.Sharing.
func (s *sharing) Early(id dispatch.ExecutorID, now, end dispatch.Time) (ok bool, again dispatch.Time) {
	e := s.of(id)
	if e == nil {
		return false, math.MaxInt64
	}
	d := e.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok, again = d.book.Early(now, end); !ok && !slices.Contains(d.waiting, s.station) {
		d.waiting = append(d.waiting, s.station)
	}
	return ok, again
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
