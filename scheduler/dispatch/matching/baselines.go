package matching

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Names of the distributors.
const (
	Ribbon    = "ribbon"
	Clockwork = "clockwork"
	Threshold = "drs"
)

// maxLargest keeps the tables of latencies small.
const maxLargest = 1 << 20

// BaselineNames lists the distributors.
func BaselineNames() []string { return []string{Ribbon, Clockwork, Threshold} }

// BaselineOptions say which distributor to make and what it knows. They are plain data.
type BaselineOptions struct {
	Name  string         // one of BaselineNames
	Types []InstanceType // by group of executors, each with its latencies
	Base  int32          // place in Types of the kind that meets the SLO at every size
	SLO   time.Duration  // of a query that comes without a deadline

	Largest   int32 // query expected; beyond it latencies are looked up more slowly
	Threshold int32 `json:",omitempty"` // of drs: the largest query that does not go to the base
}

// Check reports what is wrong with the options.
func (o BaselineOptions) Check() error {
	switch {
	case !slices.Contains(BaselineNames(), o.Name):
		return fmt.Errorf("there is no distributor %q; choose one of %s", o.Name, strings.Join(BaselineNames(), ", "))
	case o.Largest < 0 || o.Largest > maxLargest:
		return fmt.Errorf("the largest query has between 0 and %d items, not %d", maxLargest, o.Largest)
	}
	for _, t := range o.Types {
		if t.Latency.Largest() == 0 {
			return fmt.Errorf("%s knows latencies beforehand, and there are none of %s; measure it, or distribute with matching", o.Name, t.Name)
		}
	}
	return Options{Types: o.Types, Base: o.Base, SLO: o.SLO}.Check()
}

// NewBaseline makes the distributor. The options have been checked.
func NewBaseline(o BaselineOptions) dispatch.Policy {
	switch f := newFloor(o); o.Name {
	case Clockwork:
		return &clockwork{floor: f}
	case Threshold:
		return &byThreshold{floor: f, threshold: o.Threshold}
	default:
		return &ribbon{floor: f}
	}
}

// floor is what the distributors have in common: they know the latency of every query on every
// type, and which instances idle.
type floor struct {
	slo       dispatch.Time
	base      int32
	types     []pipelines.Latency  `record:"-"`
	latency   [][]dispatch.Time    `record:"-"` // by type and size
	instances []baselineInstance   // by executor
	up        []int                // instances by type
	batch     []dispatch.RequestID `record:"-"`
	timer     dispatch.Time        // asked for and not yet come
}

// baselineInstance is one executor.
type baselineInstance struct {
	group int32
	up    bool
	busy  bool
}

func newFloor(o BaselineOptions) floor {
	f := floor{slo: o.SLO, base: o.Base, up: make([]int, len(o.Types)), timer: dispatch.Never}
	for _, t := range o.Types {
		table := make([]dispatch.Time, o.Largest+1)
		for size := range table {
			table[size] = t.Latency.At(size)
		}
		f.types, f.latency = append(f.types, t.Latency), append(f.latency, table)
	}
	return f
}

// takes is how long a query takes on a type.
func (f *floor) takes(group, size int32) dispatch.Time {
	if table := f.latency[group]; int(size) < len(table) {
		return table[size]
	}
	return f.types[group].At(int(size))
}

// begin is the start of every step.
func (f *floor) begin(ev dispatch.Event) {
	f.batch = f.batch[:0]
	if ev.Kind == dispatch.Timer {
		f.timer = dispatch.Never
	}
}

// come completes a query that arrived.
func (f *floor) come(r dispatch.Request) dispatch.Request {
	if r.Deadline == 0 {
		r.Deadline = r.Arrival + f.slo
	}
	r.Size = max(1, r.Size)
	return r
}

// executors takes in an event about an executor.
func (f *floor) executors(ev dispatch.Event) {
	id := int(ev.Executor)
	if ev.Kind == dispatch.ExecutorUp && id >= 0 && ev.Group >= 0 && int(ev.Group) < len(f.up) {
		for id >= len(f.instances) {
			f.instances = append(f.instances, baselineInstance{})
		}
		if x := &f.instances[id]; !x.up {
			*x = baselineInstance{group: ev.Group, up: true}
			f.up[ev.Group]++
		}
		return
	}
	if id < 0 || id >= len(f.instances) || !f.instances[id].up {
		return
	}
	switch x := &f.instances[id]; ev.Kind {
	case dispatch.ExecutorFree:
		x.busy = false
	case dispatch.ExecutorGone:
		f.up[x.group]--
		*x = baselineInstance{}
	}
}

// idle is the first idle instance of the types wanted; -1 where none idles.
func (f *floor) idle(wanted func(group int32) bool) int {
	for id := range f.instances {
		if x := &f.instances[id]; x.up && !x.busy && wanted(x.group) {
			return id
		}
	}
	return -1
}

func (f *floor) start(id int, r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	f.instances[id].busy = true
	at := len(f.batch)
	f.batch = append(f.batch, r.ID)
	return append(out, dispatch.Action{
		Act: dispatch.Start, Executor: dispatch.ExecutorID(id), Group: f.instances[id].group, Batch: f.batch[at : at+1 : at+1],
	})
}

// hopeless reports whether the query would be late even if it started now on the fastest of the
// types that may serve it. Where none of them is up, one may still come.
func (f *floor) hopeless(now dispatch.Time, r dispatch.Request, may func(group int32) bool) bool {
	some := false
	for g := range f.latency {
		if f.up[g] == 0 || !may(int32(g)) {
			continue
		}
		if some = true; now+f.takes(int32(g), r.Size) <= r.Deadline {
			return false
		}
	}
	return some || now > r.Deadline
}

// serve starts and drops from the head of a queue, as far as instances idle. Instances of the
// base, where they may serve, go first.
func (f *floor) serve(now dispatch.Time, queue []dispatch.Request, may func(int32) bool, out []dispatch.Action) ([]dispatch.Request, []dispatch.Action) {
	done := 0
	for ; done < len(queue); done++ {
		r := queue[done]
		if f.hopeless(now, r, may) {
			out = append(out, drop(r))
			continue
		}
		id := f.idle(func(g int32) bool { return g == f.base && may(g) })
		if id < 0 {
			id = f.idle(may)
		}
		if id < 0 {
			break
		}
		out = f.start(id, r, out)
	}
	return slices.Delete(queue, 0, done), out
}

// wake asks for a timer after the deadline of the head of the queues, so that a query is answered
// for even where no instance ever frees.
func (f *floor) wake(now dispatch.Time, out []dispatch.Action, queues ...[]dispatch.Request) []dispatch.Action {
	at := dispatch.Never
	for _, q := range queues {
		if len(q) > 0 {
			at = min(at, q[0].Deadline+1)
		}
	}
	if at = max(at, now); at == dispatch.Never || at == f.timer {
		return out
	}
	f.timer = at
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: at})
}

func drop(r dispatch.Request) dispatch.Action {
	return dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late}
}

// without is the queue without a query that is no longer wanted.
func without(queue []dispatch.Request, id dispatch.RequestID) []dispatch.Request {
	return slices.DeleteFunc(queue, func(r dispatch.Request) bool { return r.ID == id })
}

func anyGroup(int32) bool { return true }

// ribbon distributes as Ribbon does: first come, first served, on an instance of the base where
// one idles, else on any other. It does not ask whether a query meets its objective there.
type ribbon struct {
	floor
	queue []dispatch.Request
}

func (d *ribbon) Name() string     { return Ribbon }
func (d *ribbon) Len() int         { return len(d.queue) }
func (d *ribbon) Describe() string { return fmt.Sprintf("ribbon: %d waiting\n", len(d.queue)) }

func (d *ribbon) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.begin(ev)
	switch ev.Kind {
	case dispatch.Arrive:
		d.queue = append(d.queue, d.come(ev.Request))
	case dispatch.Cancel:
		d.queue = without(d.queue, ev.Request.ID)
	default:
		d.executors(ev)
	}
	d.queue, out = d.serve(now, d.queue, anyGroup, out)
	return d.wake(now, out, d.queue)
}

// byThreshold distributes as DeepRecSys does: queries larger than the threshold go to the base,
// others to the other types, each side first come, first served. Where only one side has
// instances as a query comes, it serves the query.
type byThreshold struct {
	floor
	threshold int32
	queues    [2][]dispatch.Request // of the base, of the others
}

func (d *byThreshold) Name() string { return Threshold }
func (d *byThreshold) Len() int     { return len(d.queues[0]) + len(d.queues[1]) }
func (d *byThreshold) Describe() string {
	return fmt.Sprintf("drs, threshold %d: %d and %d waiting\n", d.threshold, len(d.queues[0]), len(d.queues[1]))
}

func (d *byThreshold) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.begin(ev)
	switch ev.Kind {
	case dispatch.Arrive:
		side := d.side(ev.Request.Size)
		d.queues[side] = append(d.queues[side], d.come(ev.Request))
	case dispatch.Cancel:
		for side := range d.queues {
			d.queues[side] = without(d.queues[side], ev.Request.ID)
		}
	default:
		d.executors(ev)
	}
	for side := range d.queues {
		may := func(g int32) bool { return (g == d.base) == (side == 0) }
		d.queues[side], out = d.serve(now, d.queues[side], may, out)
	}
	return d.wake(now, out, d.queues[0], d.queues[1])
}

// side is whose queue a query of that size joins: 0 that of the base, 1 that of the others.
func (d *byThreshold) side(size int32) int {
	others := 0
	for g, n := range d.up {
		if int32(g) != d.base {
			others += n
		}
	}
	if others > 0 && (size <= d.threshold || d.up[d.base] == 0) {
		return 1
	}
	return 0
}

// clockwork distributes after Clockwork, as the Kairos paper reads it: a controller knows when
// every instance will have served its queue, and gives a new query at once to the queue of an
// baselineInstance where it meets its objective. Of several the paper leaves the choice open; here it is
// the one that finishes the query first. A query that meets its objective nowhere is dropped.
// The queue of an instance that is gone is distributed anew.
type clockwork struct {
	floor
	free    []dispatch.Time // by executor: when its queue will be served
	queues  [][]dispatch.Request
	waiting int
}

func (d *clockwork) Name() string     { return Clockwork }
func (d *clockwork) Len() int         { return d.waiting }
func (d *clockwork) Describe() string { return fmt.Sprintf("clockwork: %d waiting\n", d.waiting) }

func (d *clockwork) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	d.begin(ev)
	switch ev.Kind {
	case dispatch.Arrive:
		return d.arrive(now, d.come(ev.Request), out)
	case dispatch.Cancel:
		d.cancel(ev.Request.ID)
		return out
	}
	d.executors(ev)
	for len(d.queues) < len(d.instances) {
		d.queues, d.free = append(d.queues, nil), append(d.free, 0)
	}
	id := int(ev.Executor)
	if id < 0 || id >= len(d.queues) {
		return out
	}
	switch ev.Kind {
	case dispatch.ExecutorFree:
		out = d.next(id, out)
	case dispatch.ExecutorGone:
		left := d.queues[id]
		d.queues[id], d.free[id], d.waiting = nil, 0, d.waiting-len(left)
		for _, r := range left {
			out = d.arrive(now, r, out)
		}
	}
	return out
}

func (d *clockwork) arrive(now dispatch.Time, r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	best, first := -1, r.Deadline
	for id := range d.instances {
		if !d.instances[id].up {
			continue
		}
		if done := max(now, d.free[id]) + d.takes(d.instances[id].group, r.Size); done < first || done == first && best < 0 {
			best, first = id, done
		}
	}
	if best < 0 {
		return append(out, drop(r))
	}
	d.free[best] = first
	d.queues[best] = append(d.queues[best], r)
	d.waiting++
	return d.next(best, out)
}

// cancel takes a query out of its queue. The time that was kept for it stays kept: who waits
// behind it is early.
func (d *clockwork) cancel(id dispatch.RequestID) {
	for i, q := range d.queues {
		d.queues[i] = without(q, id)
		d.waiting -= len(q) - len(d.queues[i])
	}
}

// next starts the head of an instance's queue, if it idles.
func (d *clockwork) next(id int, out []dispatch.Action) []dispatch.Action {
	if x := d.instances[id]; x.busy || !x.up || len(d.queues[id]) == 0 {
		return out
	}
	r := d.queues[id][0]
	d.queues[id] = slices.Delete(d.queues[id], 0, 1)
	d.waiting--
	return d.start(id, r, out)
}
