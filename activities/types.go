package activities

import (
	"time"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/pool"
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
	Reserved map[string][]placement.Slot // by pipeline
}

// Devices lists the devices of all hosts that are present.
func (v FleetView) Devices() []placement.Device {
	var all []placement.Device
	for _, h := range v.Hosts {
		all = append(all, h.Devices...)
	}
	return all
}

// Others are the slots that pipelines other than the one named have reserved.
// The order of pipelines is the one given.
func (v FleetView) Others(pipeline string, order []string) []placement.Slot {
	var all []placement.Slot
	for _, name := range order {
		if name != pipeline {
			all = append(all, v.Reserved[name]...)
		}
	}
	return all
}

// Reservation asks the fleet to set aside slots for a pipeline, replacing what
// it held before. It fails with type TypeConflict when the fleet is no longer
// at Version, because the slots were chosen from what the fleet was then;
// Version 0 skips the check, for giving back.
type Reservation struct {
	Pipeline string
	Version  int
	Slots    []placement.Slot
	Forget   bool // the pipeline is gone: tell it of changes no more
}

// SplitInput is the input of SplitLatency.
type SplitInput struct {
	Problem plan.Problem
	Options plan.Options
}

// ScheduleInput is the input of ScheduleModules.
type ScheduleInput struct {
	Problem plan.Problem
	Options plan.Options
	Budgets plan.Budgets
}

// PoolInput is the input of PlanPool.
type PoolInput struct {
	Problem pool.Problem
	Options pool.Options
}

// ReconcileInput is the input of Reconcile.
type ReconcileInput struct {
	Desired []placement.Slot
	Actual  []placement.Slot
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

// ReleaseInput is the input of Release.
type ReleaseInput struct {
	Pipeline  string
	Executors []string
}

// ExecutorResult says why an executor ended in good order.
type ExecutorResult struct {
	Executor string
	Reason   string
	Batches  int64
	Items    int64
	Failed   int64
}
