// Package roundrobin hands requests to executors in turn, without regard to which of them idle: the
// dispatch that the Harpagon paper describes (section III-B, figure 4), for comparison.
//
// Each executor collects its own batch and starts it when it is full, or when its first request
// has waited for as long as the plan lets it. Under round robin, which the paper's baselines
// have, an executor gets one request at a time, and collects a batch at the rate of one machine: its
// worst case is twice the duration. In the paper's throughput-cost order it gets as many
// requests in a row as its batch holds, and collects at the rate of all machines from its own
// on down: d + b/w (Theorem 1), which is more than it can keep; package
// scheduler/plan/demand proves that, and package tc has the order that keeps it.
package roundrobin

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/tc"
)

// Names of the policy, and of its variant that goes batch by batch.
const (
	RoundRobin = "round-robin"
	ByRatio    = RoundRobin + ":batches"
)

// Options of New.
type Options struct {
	Groups   []tc.Group // in the order of their throughput-cost ratio, as plans have them; Period and Deadline are not used
	MaxQueue int        // waiting requests; 0 means tc.DefaultMaxQueue
	Batches  bool       // batches in turn (ByRatio), and not single requests (RoundRobin)
}

// New builds the policy. Under round robin the first request of a batch waits for a full
// batch's duration at most, in the paper's order for the Window of its group. A request whose
// deadline can no longer be met is dropped as Late. When an executor goes, what it has
// collected is given to the others; when none is left it waits for one.
func New(o Options) dispatch.Policy {
	p := &policy{Max: o.MaxQueue, Batches: o.Batches, Armed: dispatch.Never}
	if p.Max <= 0 {
		p.Max = tc.DefaultMaxQueue
	}
	for _, g := range o.Groups {
		p.Groups = append(p.Groups, newGroup(g, o.Batches))
	}
	p.Cycle = newCycle(p.Groups, o.Batches)
	return p
}

func newGroup(o tc.Group, batches bool) group {
	g := group{Batch: max(1, o.Batch), Durations: o.MonotoneDurations()}
	if g.Collect = g.full(); batches {
		g.Collect = max(0, o.Window)
	}
	return g
}

type policy struct {
	Groups  []group
	Cycle   cycle
	Execs   []executor         // by ExecutorID
	Orphans []dispatch.Request // waiting while no executor is up
	Max     int
	Batches bool

	Now     dispatch.Time
	Armed   dispatch.Time // the timer that the driver holds; Never when none
	Waiting int
	batch   []dispatch.RequestID `json:"-"`
}

// Name is RoundRobin or ByRatio.
func (p *policy) Name() string {
	if p.Batches {
		return ByRatio
	}
	return RoundRobin
}

// Len is the number of requests that wait.
func (p *policy) Len() int { return p.Waiting }

// Step takes one event and appends the actions that follow from it.
func (p *policy) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.Now = max(p.Now, now)
	p.batch = p.batch[:0]
	if p.Armed <= p.Now {
		p.Armed = dispatch.Never
	}
	switch ev.Kind {
	case dispatch.Arrive:
		out = p.arrive(ev.Request, out)
	case dispatch.Cancel:
		p.cancel(ev.Request.ID)
	case dispatch.ExecutorUp:
		p.executorUp(ev.Executor, ev.Group)
	case dispatch.ExecutorFree:
		if p.known(ev.Executor) {
			p.Execs[ev.Executor].Busy = false
		}
	case dispatch.ExecutorGone:
		p.executorGone(ev.Executor)
	}
	return p.run(out)
}

func (p *policy) known(id dispatch.ExecutorID) bool {
	return id >= 0 && int(id) < len(p.Execs) && p.Execs[id].Up
}

func (p *policy) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	if p.Waiting >= p.Max || len(p.Groups) == 0 {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	p.Waiting++
	p.assign(r)
	return out
}

// assign gives the request to the executor whose turn it is.
func (p *policy) assign(r dispatch.Request) {
	id, ok := p.Cycle.pick()
	if !ok {
		p.Orphans = append(p.Orphans, r)
		return
	}
	e := &p.Execs[id]
	e.Queue = append(e.Queue, r)
}

func (p *policy) cancel(id dispatch.RequestID) {
	without := func(queue []dispatch.Request) []dispatch.Request {
		before := len(queue)
		queue = slices.DeleteFunc(queue, func(r dispatch.Request) bool { return r.ID == id })
		p.Waiting -= before - len(queue)
		return queue
	}
	p.Orphans = without(p.Orphans)
	for i := range p.Execs {
		p.Execs[i].Queue = without(p.Execs[i].Queue)
	}
}

func (p *policy) executorUp(id dispatch.ExecutorID, at int32) {
	if id < 0 || at < 0 || int(at) >= len(p.Groups) {
		return
	}
	p.executorGone(id)
	for int(id) >= len(p.Execs) {
		p.Execs = append(p.Execs, executor{})
	}
	p.Execs[id] = executor{Up: true, Group: at}
	p.Cycle.Groups[at].add(id)
	p.again(&p.Orphans)
}

func (p *policy) executorGone(id dispatch.ExecutorID) {
	if !p.known(id) {
		return
	}
	e := &p.Execs[id]
	p.Cycle.Groups[e.Group].remove(id)
	queue := e.Queue
	*e = executor{}
	p.again(&queue)
}

// again gives what is in the queue to whose turn it is now.
func (p *policy) again(queue *[]dispatch.Request) {
	all := *queue
	*queue = nil
	for _, r := range all {
		p.assign(r)
	}
}

// run drops what is late, starts what is ready, and sets a timer for what is not.
func (p *policy) run(out []dispatch.Action) []dispatch.Action {
	wake := dispatch.Never
	out, p.Orphans, wake = p.dropLate(out, p.Orphans, p.fastest(), wake)
	for id := range p.Execs {
		e := &p.Execs[id]
		if !e.Up {
			continue
		}
		g := &p.Groups[e.Group]
		late := dispatch.Never
		out, e.Queue, late = p.dropLate(out, e.Queue, g, late)
		if !e.Busy && len(e.Queue) > 0 && e.ready(g) <= p.Now {
			out = p.start(dispatch.ExecutorID(id), out)
			out, e.Queue, late = p.dropLate(out, e.Queue, g, dispatch.Never)
		}
		if wake = min(wake, late); !e.Busy && len(e.Queue) > 0 {
			wake = min(wake, e.ready(g))
		}
	}
	if wake == dispatch.Never || p.Armed <= wake {
		return out
	}
	p.Armed = max(wake, p.Now)
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.Armed})
}

// dropLate drops the first requests of a queue as long as they are hopeless; later is when the
// first that is left is, if that is before at.
func (p *policy) dropLate(out []dispatch.Action, queue []dispatch.Request, g *group, at dispatch.Time) (_ []dispatch.Action, left []dispatch.Request, later dispatch.Time) {
	n := 0
	for n < len(queue) && g != nil && g.hopeless(p.Now, &queue[n]) {
		out = append(out, dispatch.Action{Act: dispatch.Drop, Request: queue[n].ID, Reason: dispatch.Late})
		n++
	}
	p.Waiting -= n
	queue = slices.Delete(queue, 0, n)
	if len(queue) > 0 && g != nil && queue[0].Deadline != 0 {
		at = min(at, queue[0].Deadline-g.Durations[0]+1)
	}
	return out, queue, at
}

// start runs what the executor has collected, as far as all of it can be in time.
func (p *policy) start(id dispatch.ExecutorID, out []dispatch.Action) []dispatch.Action {
	e := &p.Execs[id]
	g := &p.Groups[e.Group]
	from, n := len(p.batch), e.fitting(p.Now, g)
	for i := range n {
		p.batch = append(p.batch, e.Queue[i].ID)
	}
	e.pop(n)
	p.Waiting -= n
	e.Busy = true
	return append(out, dispatch.Action{Act: dispatch.Start, Executor: id, Group: e.Group, Batch: p.batch[from:len(p.batch):len(p.batch)]})
}

// fastest is the group whose batch of one takes the least; nil without groups.
func (p *policy) fastest() *group {
	var best *group
	for i := range p.Groups {
		if g := &p.Groups[i]; best == nil || g.Durations[0] < best.Durations[0] {
			best = g
		}
	}
	return best
}

// Describe draws the policy: one line a group, and one an executor that has collected something.
func (p *policy) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d waiting\n", p.Name(), p.Waiting)
	for i := range p.Groups {
		fmt.Fprintf(&b, "  group %d (batch %d): %d executors\n", i, p.Groups[i].Batch, len(p.Cycle.Groups[i].Ups))
	}
	for i := range p.Execs {
		if e := &p.Execs[i]; len(e.Queue) > 0 {
			fmt.Fprintf(&b, "  executor %d: %d collected, busy %t\n", i, len(e.Queue), e.Busy)
		}
	}
	if len(p.Orphans) > 0 {
		fmt.Fprintf(&b, "  %d wait for an executor\n", len(p.Orphans))
	}
	return b.String()
}

// longestTurn bounds the requests that an executor may get before the next group has its turn.
const longestTurn = 1 << 20

// cycle states who gets the next request: the groups in their order, which is that of their
// throughput-cost ratio, each for as many requests as its executors can do while the slowest
// group runs one batch. What is left of a turn is added to the next (deficit round robin).
type cycle struct {
	Groups []turn
	At     int // the group whose turn it is
}

// turn is a group's part of the cycle.
type turn struct {
	Each   float64 // requests of one executor in a turn; at least its batch
	Row    int     // requests in a row: one, or a batch
	Credit float64 // requests that are left of the turn
	Ups    []dispatch.ExecutorID
	Next   int // of ups
	Got    int // requests of the row that it has
}

func newCycle(groups []group, batches bool) cycle {
	c := cycle{At: len(groups) - 1}
	longest := dispatch.Time(1)
	for i := range groups {
		longest = max(longest, groups[i].full())
	}
	for i := range groups {
		g := &groups[i]
		t := turn{Row: 1, Each: min(longestTurn, float64(g.Batch)*float64(longest)/float64(max(1, g.full())))}
		if batches {
			t.Row = g.Batch
		}
		t.Each = max(t.Each, float64(t.Row))
		c.Groups = append(c.Groups, t)
	}
	return c
}

// pick is the executor that gets the next request; false where none is up.
func (c *cycle) pick() (dispatch.ExecutorID, bool) {
	for range len(c.Groups) + 1 {
		if t := &c.Groups[c.At]; len(t.Ups) > 0 && (t.Got > 0 || t.Credit >= float64(t.Row)) {
			return t.give(), true
		}
		c.At = (c.At + 1) % len(c.Groups)
		t := &c.Groups[c.At]
		t.Credit = math.Mod(t.Credit, float64(t.Row)) + t.Each*float64(len(t.Ups))
	}
	return 0, false
}

// give names the executor whose row it is.
func (t *turn) give() dispatch.ExecutorID {
	id := t.Ups[t.Next]
	t.Credit--
	if t.Got++; t.Got == t.Row {
		t.Got, t.Next = 0, (t.Next+1)%len(t.Ups)
	}
	return id
}

// add enters an executor.
func (t *turn) add(id dispatch.ExecutorID) {
	at, _ := slices.BinarySearch(t.Ups, id)
	t.Ups = slices.Insert(t.Ups, at, id)
	if at <= t.Next && len(t.Ups) > 1 {
		t.Next++
	}
}

// remove takes an executor out.
func (t *turn) remove(id dispatch.ExecutorID) {
	at, _ := slices.BinarySearch(t.Ups, id)
	t.Ups = slices.Delete(t.Ups, at, at+1)
	switch {
	case at < t.Next:
		t.Next--
	case at == t.Next:
		t.Got = 0
	}
	if t.Next >= len(t.Ups) {
		t.Next = 0
	}
}

// group is what the executors of a group have in common.
type group struct {
	Batch     int
	Collect   dispatch.Time   // how long the first request of a batch waits for others
	Durations []dispatch.Time // by size, not falling
}

func (g *group) full() dispatch.Time { return g.Durations[g.Batch-1] }

// executor is one machine and what it has collected.
type executor struct {
	Up, Busy bool
	Group    int32
	Queue    []dispatch.Request // in the order in which they were given
}

// ready is when the executor should start what it has collected: at once where that is a batch;
// else when its first request has waited long enough, or waiting longer would miss a deadline.
func (e *executor) ready(g *group) dispatch.Time {
	if len(e.Queue) >= g.Batch {
		return 0
	}
	at := e.Queue[0].Arrival + g.Collect
	for i := range e.Queue {
		if d := e.Queue[i].Deadline; d != 0 {
			at = min(at, d-g.Durations[len(e.Queue)-1])
		}
	}
	return at
}

// hopeless reports whether the request cannot be in time even in a batch of its own that starts now.
func (g *group) hopeless(now dispatch.Time, r *dispatch.Request) bool {
	return r.Deadline != 0 && r.Deadline < now+g.Durations[0]
}

// fitting is how many of the first requests can start now as one batch, all in time.
func (e *executor) fitting(now dispatch.Time, g *group) int {
	due := func(n int) bool {
		return !slices.ContainsFunc(e.Queue[:n], func(r dispatch.Request) bool { return r.Deadline != 0 && r.Deadline < now+g.Durations[n-1] })
	}
	n := min(len(e.Queue), g.Batch)
	for n > 0 && !due(n) {
		n--
	}
	return n
}

// pop takes the first n out.
func (e *executor) pop(n int) { e.Queue = slices.Delete(e.Queue, 0, n) }
