package dispatch

// Device keeps books on a device that executors of several policies share, for
// what Sharing asks. It is a plain value for drivers to hold; one call at a time.
//
// The groups on it pass the non-preemptive demand test (package
// scheduler/plan/demand), which counts batches that start when they are due. One
// that starts before it is due starts only while the device is idle and nothing
// waits for it, and ends before any group can need the device: nobody notices.
type Device struct {
	tasks    []task
	running  int
	promised int // early starts whose batch has not begun
}

type task struct {
	on         bool
	at, period Time
}

// Add enters an executor of some group and returns its number.
func (d *Device) Add() int {
	for i := range d.tasks {
		if !d.tasks[i].on {
			d.tasks[i] = task{on: true, at: never}
			return i
		}
	}
	d.tasks = append(d.tasks, task{on: true, at: never})
	return len(d.tasks) - 1
}

// Remove takes an executor out.
func (d *Device) Remove(executor int) { d.tasks[executor] = task{} }

// Needed notes when the executor may next have a batch that is due, and then
// every period.
func (d *Device) Needed(executor int, at, period Time) {
	d.tasks[executor].at, d.tasks[executor].period = at, period
}

// Early says whether a batch that is not due may start now and end then; the
// device counts as taken from then on. again is when to ask once more, never when
// that is when a batch ends.
func (d *Device) Early(now, end Time) (ok bool, again Time) {
	if !d.Idle() {
		return false, never
	}
	next := never
	for i := range d.tasks {
		if d.tasks[i].on {
			next = min(next, d.tasks[i].next(now))
		}
	}
	if end > next {
		return false, next + 1
	}
	d.promised++
	return true, never
}

func (t *task) next(now Time) Time {
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
