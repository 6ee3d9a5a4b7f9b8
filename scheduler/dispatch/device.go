package dispatch

import (
	"math"
	"time"

	"github.com/harpagon/harpagon/scheduler/plan/demand"
)

// Sharing speaks for the devices that executors of several policies share. Its
// methods are about the device of an executor.
type Sharing interface {
	// Reserve says that the executor serves a group of a plan, which needs its
	// device for a batch once a period at the most.
	Reserve(id ExecutorID, t DeviceTask)

	// Early asks to start a batch that is not due. When it may not start, again is
	// when to ask once more; never means that the driver reports a Timer when a
	// batch on the device has ended. A batch that may start must start.
	Early(id ExecutorID, now Time, b EarlyBatch) (ok bool, again Time)

	// Needed tells when the schedule next needs the executor for a batch, at the
	// earliest; if none comes then, one period later, and so on. An executor of
	// which that is not told is needed by no promise.
	Needed(id ExecutorID, at, period Time)

	// Alone says that the executor has its device for itself after all.
	Alone(id ExecutorID) bool
}

// DeviceTask is a group of a plan as its device sees it: every Period at most one
// batch, which takes Duration and is to be done Deadline after it was closed.
type DeviceTask struct {
	Duration, Period, Deadline time.Duration
}

// EarlyBatch is a batch that asks to start before it is due.
type EarlyBatch struct {
	End Time // when it would end
	Due Time // when its first request is to be done; decides who is asked first
}

// Device keeps books on a device that executors of several policies share, for
// what Sharing asks. It is a plain value for drivers to hold; one call at a time.
//
// The groups on it pass the non-preemptive demand test (package
// scheduler/plan/demand), which counts batches that start when they are due. A
// batch that starts before it is due is one that the test does not count. It
// starts only while the device is idle and nothing waits for it, and it may
// last until some group can next need the device and, beyond that, for as long
// as all groups could still bear if they needed it together then
// (demand.Slack): no batch is late because of it. Where no group has made a
// promise that counts on the device, an idle device takes any batch.
type Device struct {
	tasks    []deviceTask
	slack    Time // beyond the next need
	running  int
	promised int // early starts whose batch has not begun
}

type deviceTask struct {
	on         bool
	at, period Time // when it may next be needed
	reserved   DeviceTask
	asks       bool // was refused because the device was busy
	due        Time // with asks
}

// Add enters an executor of some group and returns its number.
func (d *Device) Add() int {
	fresh := deviceTask{on: true, at: never}
	for i := range d.tasks {
		if !d.tasks[i].on {
			d.tasks[i] = fresh
			return i
		}
	}
	d.tasks = append(d.tasks, fresh)
	return len(d.tasks) - 1
}

// Remove takes an executor out.
func (d *Device) Remove(executor int) {
	d.tasks[executor] = deviceTask{}
	d.weigh()
}

// Reserve notes what the executor's group may need of the device.
func (d *Device) Reserve(executor int, t DeviceTask) {
	if d.tasks[executor].reserved == t {
		return
	}
	d.tasks[executor].reserved = t
	d.weigh()
}

// weigh finds out how much the groups can bear.
func (d *Device) weigh() {
	var tasks []demand.Task
	for i := range d.tasks {
		if t := &d.tasks[i]; t.on && t.reserved != (DeviceTask{}) {
			r := &t.reserved
			tasks = append(tasks, demand.Task{Duration: r.Duration.Seconds(), Period: r.Period.Seconds(), Deadline: r.Deadline.Seconds()})
		}
	}
	d.slack = 0
	if len(tasks) > 0 {
		d.slack = time.Duration(math.Round(demand.Slack(tasks) * 1e9))
	}
}

// Rest notes that no schedule needs the executor any more.
func (d *Device) Rest(executor int) {
	d.tasks[executor].at = never
	d.Reserve(executor, DeviceTask{})
}

// Needed notes when the executor may next have a batch that is due, and then
// every period.
func (d *Device) Needed(executor int, at, period Time) {
	d.tasks[executor].at, d.tasks[executor].period = at, period
}

// Early says whether a batch that is not due may start now; the device counts as
// taken from then on. again is when to ask once more, never where the device is
// busy, or idle and somebody more urgent has asked before: the driver calls Turn
// whenever a batch has ended, which says who is to ask again.
func (d *Device) Early(executor int, now Time, b EarlyBatch) (ok bool, again Time) {
	t := &d.tasks[executor]
	t.asks, t.due = false, b.Due
	if first := d.first(); !d.Idle() || first >= 0 && d.tasks[first].due < b.Due {
		t.asks = true
		return false, never
	}
	next := never
	for i := range d.tasks {
		if d.tasks[i].on {
			next = min(next, d.tasks[i].next(now))
		}
	}
	if next != never && b.End > next+d.slack {
		return false, next + 1
	}
	d.promised++
	return true, never
}

// Turn is the executor that is to ask again now that the device is idle: of
// those that were refused while it was not, the one whose batch is due first. It
// is asked once. -1 when there is none or the device is not idle.
func (d *Device) Turn() int {
	best := d.first()
	if best < 0 || !d.Idle() {
		return -1
	}
	d.tasks[best].asks = false
	return best
}

// first is the executor that asks for the batch that is due first, or -1.
func (d *Device) first() int {
	best := -1
	for i := range d.tasks {
		if t := &d.tasks[i]; t.on && t.asks && (best < 0 || t.due < d.tasks[best].due) {
			best = i
		}
	}
	return best
}

func (t *deviceTask) next(now Time) Time {
	if t.at >= now {
		return t.at
	}
	if t.period <= 0 {
		return never
	}
	return t.at + (now-t.at+t.period-1)/t.period*t.period
}

// Idle says that nothing runs on the device or is on its way to it.
func (d *Device) Idle() bool { return d.running+d.promised == 0 }

// Alone says that one executor has the device for itself.
func (d *Device) Alone() bool {
	n := 0
	for i := range d.tasks {
		if d.tasks[i].on {
			n++
		}
	}
	return n == 1
}

// Begin notes that a batch is on its way to the device.
func (d *Device) Begin() {
	d.running++
	d.promised = max(0, d.promised-1)
}

// End notes that a batch has left the device.
func (d *Device) End() { d.running = max(0, d.running-1) }

// Clear notes that all batches are gone.
func (d *Device) Clear() { d.running, d.promised = 0, 0 }
