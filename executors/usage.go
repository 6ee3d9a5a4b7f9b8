package executors

import (
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/placement"
)

// DeviceStatus is how a device of a host is used.
type DeviceStatus struct {
	Host      string
	Device    string
	Hardware  string
	Capacity  int64 // bytes that it offers; 0 when unknown
	Memory    int64 // bytes that executors hold there, as far as they know
	Executors int
	Waiting   int // batches that wait for it

	// Since the host was started.
	Batches int64
	Items   int64
	Busy    time.Duration // with batches, those that ran side by side counted each
}

// DeviceStatuses tells how every device of the host is used, sorted by name.
func (h *Host) DeviceStatuses() []DeviceStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]DeviceStatus, 0, len(h.Devices))
	for _, d := range h.Devices {
		all = append(all, h.deviceStatus(d))
	}
	slices.SortStableFunc(all, func(a, b DeviceStatus) int { return strings.Compare(a.Device, b.Device) })
	return all
}

func (h *Host) deviceStatus(d placement.Device) DeviceStatus {
	s := DeviceStatus{Host: h.Name, Device: d.Name, Hardware: d.Hardware, Capacity: d.Memory}
	for _, e := range h.running {
		if e.task.Slot.Device == d.Name {
			s.Executors++
			s.Memory += e.memory.Load()
		}
	}
	if queue := h.devices[d.Name]; queue != nil {
		spent, waiting := queue.Look()
		s.Waiting, s.Batches, s.Items, s.Busy = waiting, spent.Batches, spent.Items, spent.Busy
	}
	return s
}
