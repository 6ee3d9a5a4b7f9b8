package activities

import (
	"maps"
	"slices"
	"time"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// HostInfo is a host that joins the fleet.
type HostInfo struct {
	Name    string
	Devices []placement.Device
}

// HostBeat is what a host says with every heartbeat of HoldHost.
type HostBeat struct {
	Present string // for how long
	Devices []devices.Reading
}

// FleetView is the fleet at one moment, as the workflow `fleet` tells it.
type FleetView struct {
	Version  int                         // grows with every change
	Hosts    []HostInfo                  // present, sorted by name
	Reserved map[string][]placement.Slot // by the ID of the service's workflow
}

// Devices lists the devices of all hosts that are present; never nil.
func (v FleetView) Devices() []placement.Device {
	all := []placement.Device{}
	for _, h := range v.Hosts {
		all = append(all, h.Devices...)
	}
	return all
}

// For is the fleet as it is for services that are planned together: what others
// have reserved is held.
func (v FleetView) For(services ...string) scheduler.Fleet {
	f := scheduler.Fleet{Devices: v.Devices()}
	for _, other := range slices.Sorted(maps.Keys(v.Reserved)) {
		if !slices.Contains(services, other) {
			f.Held = append(f.Held, v.Reserved[other]...)
		}
	}
	return f
}

// Reservation asks the fleet to set aside slots for a service, replacing what
// it held before. It fails with type TypeConflict when the fleet is no longer
// at Version, because the slots were chosen from what the fleet was then;
// Version 0 skips the check, for giving back.
type Reservation struct {
	Service string // ID of its workflow
	Version int
	Slots   []placement.Slot
	Forget  bool // the service is gone: tell it of changes no more
}

// IdentifyInput is the input of Identify.
type IdentifyInput struct {
	Modules []pipelines.Module
}

// ProfileInput is the input of ProfileModule.
type ProfileInput struct {
	Pipeline pipelines.Pipeline
	Module   string
	Hardware string
	Device   string
	Again    bool `json:",omitempty"` // measure what is kept, too
}

// KeepInput is the input of KeepProfile.
type KeepInput struct {
	Pipeline pipelines.Pipeline
	Module   string
	Hardware string
	Points   []pipelines.Point // of this and other hardware
}

// ProfileResult is what is known of a module on one kind of hardware.
type ProfileResult struct {
	Module   string
	Points   []pipelines.Point
	Reused   int           // points that were on file
	Measured int           // points that were measured now
	Took     time.Duration // of this attempt
}

// ExecutorResult says why an executor ended in good order.
type ExecutorResult struct {
	Executor string
	Reason   string
	Batches  int64
	Items    int64
	Failed   int64
}
