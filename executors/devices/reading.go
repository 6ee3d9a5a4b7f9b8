package devices

import (
	"slices"

	"github.com/harpagon/harpagon/executors"
)

// Reading is how a device is doing: what executors use of it, and what the
// driver says where it is a GPU. It travels as JSON.
type Reading struct {
	executors.DeviceStatus
	GPU *GPU `json:",omitempty"`
}

// Read joins what a host knows of its devices with what the driver says. GPUs
// that the host does not offer follow those that it does: somebody wants to know
// of them, too.
func Read(host string, statuses []executors.DeviceStatus, gpus []GPU) []Reading {
	all := make([]Reading, 0, len(statuses)+len(gpus))
	for _, s := range statuses {
		all = append(all, Reading{DeviceStatus: s})
	}
	for _, g := range gpus {
		name := g.Device()
		at := slices.IndexFunc(all, func(r Reading) bool { return r.Device == name })
		if at < 0 {
			at = len(all)
			all = append(all, Reading{DeviceStatus: executors.DeviceStatus{Host: host, Device: name, Hardware: hardwareName(g.Name)}})
		}
		all[at].GPU = &g
	}
	return all
}
