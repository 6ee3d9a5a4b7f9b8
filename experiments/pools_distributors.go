package experiments

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/pool"
)

// floor is what the distributors have in common: the latency of every query on every type,
// and which instances idle.
type floor struct {
	slo       dispatch.Time
	base      int32
	types     []pipelines.Latency
	latency   [][]dispatch.Time // by type and size
	instances []distributedTo   // by executor
	up        []int             // instances by type
	batch     []dispatch.RequestID
	timer     dispatch.Time // set and not yet fired
}

// distributedTo is one executor.
type distributedTo struct {
	group int32
	up    bool
	busy  bool
}

// distributor makes one of the distributors that Kairos is compared with (section 7), for queries up to
// a largest size: ribbon, clockwork or deeprecsys, whose threshold is the largest query that does not
// go to the base. They use given latencies of each size on each kind of instance, learn
// nothing, and hand queries out one by one. All of them drop a query once no instance can
// finish it in time. The originals would serve it late; dropping it is an advantage to
// them.
func distributor(by string, p pool.TrialPool, largest, threshold int) dispatch.Policy {
	f := floor{slo: p.SLO, base: int32(p.Base), up: make([]int, len(p.Types)), timer: dispatch.Never}
	for _, t := range p.Types {
		table := make([]dispatch.Time, largest+1)
		for size := range table {
			table[size] = t.Latency.At(size)
		}
		f.types, f.latency = append(f.types, t.Latency), append(f.latency, table)
	}
	switch by {
	case clockwork:
		return &byQueues{floor: f}
	case deeprecsys:
		return &byThreshold{floor: f, threshold: int32(threshold)}
	default:
		return &firstCome{floor: f}
	}
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
			f.instances = append(f.instances, distributedTo{})
		}
		if x := &f.instances[id]; !x.up {
			*x = distributedTo{group: ev.Group, up: true}
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
		*x = distributedTo{}
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
			out = append(out, dropLate(r))
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

// wake sets a timer after the deadline of the head of the queues, so that a query is
// dropped in time even where no instance ever frees.
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

func dropLate(r dispatch.Request) dispatch.Action {
	return dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late}
}

// without is the queue without a query that is no longer wanted.
func without(queue []dispatch.Request, id dispatch.RequestID) []dispatch.Request {
	return slices.DeleteFunc(queue, func(r dispatch.Request) bool { return r.ID == id })
}

func anyGroup(int32) bool { return true }

// firstCome distributes as Ribbon does: first come, first served, on an instance of the base where
// one idles, else on any other. It does not check whether a query meets its objective
// there.
type firstCome struct {
	floor
	queue []dispatch.Request
}

func (d *firstCome) Name() string     { return ribbon }
func (d *firstCome) Len() int         { return len(d.queue) }
func (d *firstCome) Describe() string { return fmt.Sprintf("ribbon: %d waiting\n", len(d.queue)) }

func (d *firstCome) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
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

func (d *byThreshold) Name() string { return deeprecsys }
func (d *byThreshold) Len() int     { return len(d.queues[0]) + len(d.queues[1]) }
func (d *byThreshold) Describe() string {
	return fmt.Sprintf("deeprecsys, threshold %d: %d and %d waiting\n", d.threshold, len(d.queues[0]), len(d.queues[1]))
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

// byQueues distributes after Clockwork, as the Kairos paper reads it: a controller predicts
// when every instance will have served its queue, and gives a new query at once to the
// queue of an instance where it meets its objective. Of several the paper leaves the choice
// open; here it is the one that finishes the query first. A query that meets its objective
// nowhere is dropped. The queue of an instance that is gone is distributed again.
type byQueues struct {
	floor
	free    []dispatch.Time // by executor: when its queue will be served
	queues  [][]dispatch.Request
	waiting int
}

func (d *byQueues) Name() string     { return clockwork }
func (d *byQueues) Len() int         { return d.waiting }
func (d *byQueues) Describe() string { return fmt.Sprintf("clockwork: %d waiting\n", d.waiting) }

func (d *byQueues) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
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

func (d *byQueues) arrive(now dispatch.Time, r dispatch.Request, out []dispatch.Action) []dispatch.Action {
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
		return append(out, dropLate(r))
	}
	d.free[best] = first
	d.queues[best] = append(d.queues[best], r)
	d.waiting++
	return d.next(best, out)
}

// cancel takes a query out of its queue. The time that was kept for it stays kept: who waits
// behind it is early.
func (d *byQueues) cancel(id dispatch.RequestID) {
	for i, q := range d.queues {
		d.queues[i] = without(q, id)
		d.waiting -= len(q) - len(d.queues[i])
	}
}

// next starts the head of an instance's queue, if it idles.
func (d *byQueues) next(id int, out []dispatch.Action) []dispatch.Action {
	if x := d.instances[id]; x.busy || !x.up || len(d.queues[id]) == 0 {
		return out
	}
	r := d.queues[id][0]
	d.queues[id] = slices.Delete(d.queues[id], 0, 1)
	d.waiting--
	return d.start(id, r, out)
}

// climbSteps are the widths of the steps of hillClimb, relative to the largest
// size.
func climbSteps() []float64 { return []float64{0.2, 0.1, 0.05, 0.02, 0.01} }

// hillClimb looks for the threshold of deeprecsys with the highest goodput,
// as DeepRecSys does: from the largest size that some other type than the base
// serves within the objective, it goes on in the direction that helps, with
// ever smaller steps.
func hillClimb(s pool.TrialSearch, p pool.TrialPool, load pool.TrialLoad, largest int, above float64) (threshold int, goodput float64, err error) {
	try := func(threshold int) (float64, error) {
		return s.Goodput(p, func() dispatch.Policy { return distributor(deeprecsys, p, largest, threshold) }, load, above)
	}
	threshold = reach(p, largest)
	if goodput, err = try(threshold); err != nil {
		return threshold, goodput, err
	}
	for _, share := range climbSteps() {
		step := max(1, int(share*float64(largest)))
		for moved := true; moved; {
			moved = false
			for _, next := range []int{threshold + step, threshold - step} {
				if next < 0 || next > largest {
					continue
				}
				rate, err := try(next)
				if err != nil {
					return threshold, goodput, err
				}
				if rate > goodput {
					threshold, goodput, moved = next, rate, true
					break
				}
			}
		}
	}
	return threshold, goodput, nil
}

// reach is the largest size that an instance other than of the base serves
// within the objective.
func reach(p pool.TrialPool, largest int) int {
	reach := 0
	for g, n := range p.Counts {
		if n == 0 || g == p.Base {
			continue
		}
		for size := reach; size <= largest; size++ {
			if p.Types[g].Latency.At(size) <= p.SLO {
				reach = size
			}
		}
	}
	return reach
}

// bestThroughput is the throughput of the paper's oracle (section 7) on the pool: all
// queries of the load are there from the start; a free base instance takes the
// largest that is left, any other the smallest, unless that violates the SLO
// there. It is 0 where not all queries can be served.
//
// It is no true bound on what a policy can reach: it serves every query, where
// a goodput may leave out one in a hundred, and another order may pack better.
func bestThroughput(p pool.TrialPool, load pool.TrialLoad) float64 {
	sizes := slices.Sorted(slices.Values(load.Sizes()))
	low, high := 0, len(sizes)-1
	if high < 0 {
		return 0
	}
	latency := func(kind int, size int32) time.Duration { return p.Types[kind].Latency.At(int(size)) }
	type instance struct {
		free time.Duration
		kind int
	}
	var all []instance
	for g, n := range p.Counts {
		for range n {
			all = append(all, instance{kind: g})
		}
	}
	end := time.Duration(0)
	for low <= high {
		next := -1
		for k := range all {
			if next < 0 || all[k].free < all[next].free {
				next = k
			}
		}
		if next < 0 {
			return 0
		}
		x := &all[next]
		size := sizes[low]
		if x.kind == p.Base {
			size = sizes[high]
		}
		if latency(x.kind, size) > p.SLO {
			all = slices.Delete(all, next, next+1) // nothing is left that it may serve
			continue
		}
		if x.kind == p.Base {
			high--
		} else {
			low++
		}
		x.free += latency(x.kind, size)
		end = max(end, x.free)
	}
	return float64(len(sizes)) / end.Seconds()
}
