package executors

import (
	"container/heap"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/scheduler/placement"
)

// deviceQueue hands one device to its users in turn. Waiting batches are served
// by due time, earliest first, and a batch that runs is never interrupted.
// Batches of one user may run side by side up to its concurrency; those of different users
// never do, because profiles do not cover that. A batch that waits is overtaken only by one
// that is due earlier, so the batches of one user that run side by side cannot starve another.
//
// The zero value is an idle device.
type deviceQueue struct {
	users atomic.Int32

	mu      sync.Mutex
	owner   *queueUser // of the batches that run
	running int
	queue   waiters
	seq     uint64
	spent   deviceTime
}

// deviceTime is what has run on a device.
type deviceTime struct {
	Batches, Items int64
	Busy           time.Duration
}

// queueUser is one of the users that take turns. Use it by pointer.
type queueUser struct {
	Concurrency int // batches that may run side by side; 0 means 1
}

// Join counts a user, until it leaves.
func (d *deviceQueue) Join() { d.users.Add(1) }

// Leave ends what Join has begun.
func (d *deviceQueue) Leave() { d.users.Add(-1) }

// Alone reports whether at most one has joined.
func (d *deviceQueue) Alone() bool { return d.users.Load() <= 1 }

// Charge counts a batch.
func (d *deviceQueue) Charge(items int, busy time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spent.Batches++
	d.spent.Items += int64(items)
	d.spent.Busy += busy
}

// Snapshot is what has run and how many batches wait.
func (d *deviceQueue) Snapshot() (s deviceTime, waiting int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spent, len(d.queue)
}

// Acquire returns when the device is ours, with whether it had to wait. The
// zero due time goes last. An error means that ctx has ended, and nothing is
// held.
func (d *deviceQueue) Acquire(ctx context.Context, who *queueUser, due time.Time) (waited bool, err error) {
	d.mu.Lock()
	if d.free(who) && (len(d.queue) == 0 || sooner(due, d.queue[0].due)) {
		d.take(who)
		d.mu.Unlock()
		return false, nil
	}
	d.seq++
	w := &waiter{who: who, due: due, seq: d.seq, granted: make(chan struct{})}
	heap.Push(&d.queue, w)
	d.mu.Unlock()

	select {
	case <-w.granted:
		return true, nil
	case <-ctx.Done():
		d.abandon(w)
		return true, ctx.Err()
	}
}

// Release gives one acquired place back.
func (d *deviceQueue) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	d.grant()
}

// abandon leaves the queue, or gives the device back when it was granted just
// before.
func (d *deviceQueue) abandon(w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.index >= 0 {
		heap.Remove(&d.queue, w.index)
	} else {
		d.running--
	}
	d.grant()
}

func (d *deviceQueue) free(who *queueUser) bool {
	return d.running == 0 || d.owner == who && d.running < max(who.Concurrency, 1)
}

func (d *deviceQueue) take(who *queueUser) {
	d.owner = who
	d.running++
}

func (d *deviceQueue) grant() {
	for len(d.queue) > 0 && d.free(d.queue[0].who) {
		w := heap.Pop(&d.queue).(*waiter)
		d.take(w.who)
		close(w.granted)
	}
}

// waiter is a batch in the queue of a device.
type waiter struct {
	who     *queueUser
	due     time.Time
	seq     uint64
	index   int // in the queue; -1 once granted
	granted chan struct{}
}

// waiters is a heap by due time, then by arrival.
type waiters []*waiter

func (q waiters) Len() int { return len(q) }

func (q waiters) Less(i, j int) bool {
	if a, b := q[i].due, q[j].due; sooner(a, b) || sooner(b, a) {
		return sooner(a, b)
	}
	return q[i].seq < q[j].seq
}

// sooner compares due times, of which the zero one is last. It goes by the time that has
// passed, not by that of day, which may be set while batches wait.
func sooner(a, b time.Time) bool {
	if a.IsZero() || b.IsZero() {
		return !a.IsZero() && b.IsZero()
	}
	return a.Before(b)
}

func (q waiters) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *waiters) Push(x any) {
	w := x.(*waiter)
	w.index = len(*q)
	*q = append(*q, w)
}

func (q *waiters) Pop() any {
	last := len(*q) - 1
	w := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	w.index = -1
	return w
}

// DeviceStatus is how a device of a host is used.
type DeviceStatus struct {
	Host      string
	Device    string
	Hardware  string
	Capacity  int64 // bytes that it offers; 0 when unknown
	Memory    int64 // bytes that executors hold there, as far as they report them
	Executors int
	Waiting   int // batches that wait for it

	// Since the host was started.
	Batches int64
	Items   int64
	Busy    time.Duration // with batches, those that ran side by side counted each
}

// DeviceStatuses reports how every device of the host is used, sorted by name.
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
		spent, waiting := queue.Snapshot()
		s.Waiting, s.Batches, s.Items, s.Busy = waiting, spent.Batches, spent.Items, spent.Busy
	}
	return s
}
