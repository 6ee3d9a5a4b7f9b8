// Package roundrobin hands requests to executors in turn, without regard to which of them idle: the
// dispatch that the Harpagon paper describes (section III-B, figure 4), for comparison.
//
// Each executor collects its own batch and starts it when it is full, or when its first request
// has waited for as long as the plan lets it. Under round robin, which the paper's baselines
// have, an executor gets one request at a time, and collects a batch at the rate of one machine: its
// worst case is twice the duration. In the paper's throughput-cost order it gets as many
// requests in a row as its batch holds, and collects at the rate of all machines from its own
// on down: d + b/w (Theorem 1), which is more than it can keep; package scheduler/plan/demand
// says why, and package tc has the order that keeps it.
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
	p := &policy{max: o.MaxQueue, batches: o.Batches, armed: dispatch.Never}
	if p.max <= 0 {
		p.max = tc.DefaultMaxQueue
	}
	for _, g := range o.Groups {
		p.groups = append(p.groups, newGroup(g, o.Batches))
	}
	p.cycle = newCycle(p.groups, o.Batches)
	return p
}

func newGroup(o tc.Group, batches bool) group {
	g := group{batch: max(1, o.Batch), durations: o.MonotoneDurations()}
	if g.collect = g.full(); batches {
		g.collect = max(0, o.Window)
	}
	return g
}

type policy struct {
	groups  []group
	cycle   cycle
	execs   []executor         // by ExecutorID
	orphans []dispatch.Request // waiting while no executor is up
	max     int
	batches bool

	now     dispatch.Time
	armed   dispatch.Time // the timer that the driver holds; Never when none
	waiting int
	batch   []dispatch.RequestID `record:"-"`
}

// Name is RoundRobin or ByRatio.
func (p *policy) Name() string {
	if p.batches {
		return ByRatio
	}
	return RoundRobin
}

// Len is the number of requests that wait.
func (p *policy) Len() int { return p.waiting }

// Step takes one event and appends the actions that follow from it.
func (p *policy) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.now = max(p.now, now)
	p.batch = p.batch[:0]
	if p.armed <= p.now {
		p.armed = dispatch.Never
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
			p.execs[ev.Executor].busy = false
		}
	case dispatch.ExecutorGone:
		p.executorGone(ev.Executor)
	}
	return p.run(out)
}

func (p *policy) known(id dispatch.ExecutorID) bool {
	return id >= 0 && int(id) < len(p.execs) && p.execs[id].up
}

func (p *policy) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	if p.waiting >= p.max || len(p.groups) == 0 {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	p.waiting++
	p.assign(r)
	return out
}

// assign gives the request to the executor whose turn it is.
func (p *policy) assign(r dispatch.Request) {
	id, ok := p.cycle.pick()
	if !ok {
		p.orphans = append(p.orphans, r)
		return
	}
	e := &p.execs[id]
	e.queue = append(e.queue, r)
}

func (p *policy) cancel(id dispatch.RequestID) {
	without := func(queue []dispatch.Request) []dispatch.Request {
		before := len(queue)
		queue = slices.DeleteFunc(queue, func(r dispatch.Request) bool { return r.ID == id })
		p.waiting -= before - len(queue)
		return queue
	}
	p.orphans = without(p.orphans)
	for i := range p.execs {
		p.execs[i].queue = without(p.execs[i].queue)
	}
}

func (p *policy) executorUp(id dispatch.ExecutorID, at int32) {
	if id < 0 || at < 0 || int(at) >= len(p.groups) {
		return
	}
	p.executorGone(id)
	for int(id) >= len(p.execs) {
		p.execs = append(p.execs, executor{})
	}
	p.execs[id] = executor{up: true, group: at}
	p.cycle.groups[at].add(id)
	p.again(&p.orphans)
}

func (p *policy) executorGone(id dispatch.ExecutorID) {
	if !p.known(id) {
		return
	}
	e := &p.execs[id]
	p.cycle.groups[e.group].remove(id)
	queue := e.queue
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

// run drops what is late, starts what is ready, and asks for a timer for what is not.
func (p *policy) run(out []dispatch.Action) []dispatch.Action {
	wake := dispatch.Never
	out, p.orphans, wake = p.dropLate(out, p.orphans, p.fastest(), wake)
	for id := range p.execs {
		e := &p.execs[id]
		if !e.up {
			continue
		}
		g := &p.groups[e.group]
		late := dispatch.Never
		out, e.queue, late = p.dropLate(out, e.queue, g, late)
		if !e.busy && len(e.queue) > 0 && e.ready(g) <= p.now {
			out = p.start(dispatch.ExecutorID(id), out)
			out, e.queue, late = p.dropLate(out, e.queue, g, dispatch.Never)
		}
		if wake = min(wake, late); !e.busy && len(e.queue) > 0 {
			wake = min(wake, e.ready(g))
		}
	}
	if wake == dispatch.Never || p.armed <= wake {
		return out
	}
	p.armed = max(wake, p.now)
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.armed})
}

// dropLate drops the first requests of a queue as long as they are hopeless; later is when the
// first that is left is, if that is before at.
func (p *policy) dropLate(out []dispatch.Action, queue []dispatch.Request, g *group, at dispatch.Time) (_ []dispatch.Action, left []dispatch.Request, later dispatch.Time) {
	n := 0
	for n < len(queue) && g != nil && g.hopeless(p.now, &queue[n]) {
		out = append(out, dispatch.Action{Act: dispatch.Drop, Request: queue[n].ID, Reason: dispatch.Late})
		n++
	}
	p.waiting -= n
	queue = slices.Delete(queue, 0, n)
	if len(queue) > 0 && g != nil && queue[0].Deadline != 0 {
		at = min(at, queue[0].Deadline-g.durations[0]+1)
	}
	return out, queue, at
}

// start runs what the executor has collected, as far as all of it can be in time.
func (p *policy) start(id dispatch.ExecutorID, out []dispatch.Action) []dispatch.Action {
	e := &p.execs[id]
	g := &p.groups[e.group]
	from, n := len(p.batch), e.fitting(p.now, g)
	for i := range n {
		p.batch = append(p.batch, e.queue[i].ID)
	}
	e.pop(n)
	p.waiting -= n
	e.busy = true
	return append(out, dispatch.Action{Act: dispatch.Start, Executor: id, Group: e.group, Batch: p.batch[from:len(p.batch):len(p.batch)]})
}

// fastest is the group whose batch of one takes the least; nil without groups.
func (p *policy) fastest() *group {
	var best *group
	for i := range p.groups {
		if g := &p.groups[i]; best == nil || g.durations[0] < best.durations[0] {
			best = g
		}
	}
	return best
}

// Describe draws the policy: one line a group, and one an executor that has collected something.
func (p *policy) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d waiting\n", p.Name(), p.waiting)
	for i := range p.groups {
		fmt.Fprintf(&b, "  group %d (batch %d): %d executors\n", i, p.groups[i].batch, len(p.cycle.groups[i].ups))
	}
	for i := range p.execs {
		if e := &p.execs[i]; len(e.queue) > 0 {
			fmt.Fprintf(&b, "  executor %d: %d collected, busy %t\n", i, len(e.queue), e.busy)
		}
	}
	if len(p.orphans) > 0 {
		fmt.Fprintf(&b, "  %d wait for an executor\n", len(p.orphans))
	}
	return b.String()
}

// longestTurn bounds the requests that an executor may get before the next group has its turn.
const longestTurn = 1 << 20

// cycle says who gets the next request: the groups in their order, which is that of their
// throughput-cost ratio, each for as many requests as its executors can do while the slowest
// group runs one batch. What is left of a turn is added to the next (deficit round robin).
type cycle struct {
	groups []turn
	at     int // the group whose turn it is
}

// turn is a group's part of the cycle.
type turn struct {
	each   float64 // requests of one executor in a turn; at least its batch
	row    int     // requests in a row: one, or a batch
	credit float64 // requests that are left of the turn
	ups    []dispatch.ExecutorID
	next   int // of ups
	got    int // requests of the row that it has
}

func newCycle(groups []group, batches bool) cycle {
	c := cycle{at: len(groups) - 1}
	longest := dispatch.Time(1)
	for i := range groups {
		longest = max(longest, groups[i].full())
	}
	for i := range groups {
		g := &groups[i]
		t := turn{row: 1, each: min(longestTurn, float64(g.batch)*float64(longest)/float64(max(1, g.full())))}
		if batches {
			t.row = g.batch
		}
		t.each = max(t.each, float64(t.row))
		c.groups = append(c.groups, t)
	}
	return c
}

// pick is the executor that gets the next request; false where none is up.
func (c *cycle) pick() (dispatch.ExecutorID, bool) {
	for range len(c.groups) + 1 {
		if t := &c.groups[c.at]; len(t.ups) > 0 && (t.got > 0 || t.credit >= float64(t.row)) {
			return t.give(), true
		}
		c.at = (c.at + 1) % len(c.groups)
		t := &c.groups[c.at]
		t.credit = math.Mod(t.credit, float64(t.row)) + t.each*float64(len(t.ups))
	}
	return 0, false
}

// give names the executor whose row it is.
func (t *turn) give() dispatch.ExecutorID {
	id := t.ups[t.next]
	t.credit--
	if t.got++; t.got == t.row {
		t.got, t.next = 0, (t.next+1)%len(t.ups)
	}
	return id
}

// add enters an executor.
func (t *turn) add(id dispatch.ExecutorID) {
	at, _ := slices.BinarySearch(t.ups, id)
	t.ups = slices.Insert(t.ups, at, id)
	if at <= t.next && len(t.ups) > 1 {
		t.next++
	}
}

// remove takes an executor out.
func (t *turn) remove(id dispatch.ExecutorID) {
	at, _ := slices.BinarySearch(t.ups, id)
	t.ups = slices.Delete(t.ups, at, at+1)
	switch {
	case at < t.next:
		t.next--
	case at == t.next:
		t.got = 0
	}
	if t.next >= len(t.ups) {
		t.next = 0
	}
}

// group is what the executors of a group have in common.
type group struct {
	batch     int
	collect   dispatch.Time   // how long the first request of a batch waits for others
	durations []dispatch.Time // by size, not falling
}

func (g *group) full() dispatch.Time { return g.durations[g.batch-1] }

// executor is one machine and what it has collected.
type executor struct {
	up, busy bool
	group    int32
	queue    []dispatch.Request // in the order in which they were given
}

// ready is when the executor should start what it has collected: at once where that is a batch;
// else when its first request has waited long enough, or waiting longer would miss a deadline.
func (e *executor) ready(g *group) dispatch.Time {
	if len(e.queue) >= g.batch {
		return 0
	}
	at := e.queue[0].Arrival + g.collect
	for i := range e.queue {
		if d := e.queue[i].Deadline; d != 0 {
			at = min(at, d-g.durations[len(e.queue)-1])
		}
	}
	return at
}

// hopeless reports whether the request cannot be in time even in a batch of its own that starts now.
func (g *group) hopeless(now dispatch.Time, r *dispatch.Request) bool {
	return r.Deadline != 0 && r.Deadline < now+g.durations[0]
}

// fitting is how many of the first requests can start now as one batch, all in time.
func (e *executor) fitting(now dispatch.Time, g *group) int {
	due := func(n int) bool {
		return !slices.ContainsFunc(e.queue[:n], func(r dispatch.Request) bool { return r.Deadline != 0 && r.Deadline < now+g.durations[n-1] })
	}
	n := min(len(e.queue), g.batch)
	for n > 0 && !due(n) {
		n--
	}
	return n
}

// pop takes the first n out.
func (e *executor) pop(n int) { e.queue = slices.Delete(e.queue, 0, n) }
