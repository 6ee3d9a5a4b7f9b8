package plan

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// Device is a device that groups share.
type Device struct {
	Hardware string
	Price    float64 // money per hour
	Share    float64 // of its time that is used, 0..1
	Tasks    []Task
}

// HeldDevice is a device that others use.
type HeldDevice struct {
	Device
	Memory int64 // bytes that they take; 0 when unknown
}

// Task is a group that runs on a shared device.
type Task struct {
	Pipeline string
	Module   string
	Group    int // index into Module.Groups
	Duration time.Duration
	Period   time.Duration
	Deadline time.Duration // from the end of the window to the end of the batch
	Share    float64       // of the device's time
}

// UseDevices records the shared devices. The plan is sound only if they are.
func (p *Plan) UseDevices(devices []Device) {
	p.Devices = devices
	if p.Sound = p.Sound && soundDevices(devices); !p.Sound {
		p.Proof = MeanRate
	}
}

func soundDevices(devices []Device) bool {
	for _, d := range devices {
		if !demand.NonPreemptive(d.Demand()).Sound {
			return false
		}
	}
	return true
}

// Demand is what the tasks of the device ask for, as the non-preemptive demand
// test takes it.
func (d *Device) Demand() []demand.Task {
	var tasks []demand.Task
	for _, t := range d.Tasks {
		tasks = append(tasks, demand.Task{Duration: t.Duration.Seconds(), Period: t.Period.Seconds(), Deadline: t.Deadline.Seconds()})
	}
	return tasks
}
