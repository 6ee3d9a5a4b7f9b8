// Package grouped is the batching of HarmonyBatch (sections III-B and IV-C): applications that
// share a model wait in one queue per group, each for its own timeout at the longest.
package grouped

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// never is the instant that does not come.
const never = dispatch.Never

// Options configures policy grouped: applications that share a model in
// groups, each with a queue and a kind of function of its own (HarmonyBatch,
// sections III-B and IV-C).
type Options struct {
	// Groups, by the Group that executors come up with. For a function an
	// executor stands for one invocation: as many come up as may run at once.
	Groups []Group

	// MaxQueue is the most requests that may wait, of all groups together; one
	// more is dropped as Full. 0 means DefaultMaxQueue.
	MaxQueue int
}

// Group is the applications of one queue.
type Group struct {
	Batch        int           // requests in a full batch; at least 1
	Duration     time.Duration // the longest that a batch takes
	Applications []Application
}

// Application says how long the requests of one application wait.
type Application struct {
	Class   int32         // that its requests have
	Timeout time.Duration // the longest wait for the batch to fill
	SLO     time.Duration // deadline of requests that have none, from arrival; 0 for none
}

// Check reports what is wrong with the options. New mends what Check
// refuses.
func (o Options) Check() error {
	seen := map[int32]int{}
	for i, g := range o.Groups {
		switch {
		case g.Batch < 1:
			return fmt.Errorf("group %d: a batch holds at least one request, not %d", i, g.Batch)
		case g.Duration < 0:
			return fmt.Errorf("group %d: a duration of %v is below zero", i, g.Duration)
		}
		for _, a := range g.Applications {
			if other, taken := seen[a.Class]; taken {
				return fmt.Errorf("group %d: class %d is in group %d already; requests of one application wait in one queue", i, a.Class, other)
			}
			seen[a.Class] = i
			switch {
			case a.Class < 0:
				return fmt.Errorf("group %d: class %d is below zero", i, a.Class)
			case a.Timeout < 0:
				return fmt.Errorf("group %d: class %d has a timeout of %v; give zero or above", i, a.Class, a.Timeout)
			case a.SLO > 0 && a.Timeout+g.Duration > a.SLO:
				return fmt.Errorf("group %d: class %d may wait %v for a batch that takes %v, longer than its SLO of %v", i, a.Class, a.Timeout, g.Duration, a.SLO)
			}
		}
	}
	if len(seen) == 0 {
		return fmt.Errorf("give at least one group with an application")
	}
	return nil
}

// grouped is the policy: see New.
type grouped struct {
	groups []groupQueue
	place  []placement // by class
	fleet  dispatch.Fleet
	wakes  dispatch.Agenda // groups, by when they need a look without an event
	max    int

	now     dispatch.Time
	armed   dispatch.Time // the timer that the driver holds; never when none
	waiting int
	batch   []dispatch.RequestID `record:"-"`
}

// placement is what becomes of the requests of a class; group is -1 where the
// class is unknown.
type placement struct {
	group   int32
	timeout dispatch.Time
	slo     dispatch.Time
}

type groupQueue struct {
	batch    int
	duration dispatch.Time
	queue    patients
}

// New builds the policy. A request goes to the queue of its
// application's group. The queue is sent as one batch as soon as it holds
// Batch requests or the timeout of any request in it has passed: no request
// waits longer than its own application's timeout while an executor of the
// group idles. Where none does, requests leave in the order in which their
// timeouts pass, Batch at a time, and those that could not finish in time any
// more are dropped as Late.
func New(o Options) dispatch.Policy {
	p := &grouped{fleet: dispatch.NewFleet(max(1, len(o.Groups))), wakes: dispatch.NewAgenda(len(o.Groups)), max: o.MaxQueue, armed: never}
	if p.max <= 0 {
		p.max = dispatch.DefaultMaxQueue
	}
	largest := 1
	for i, g := range o.Groups {
		q := groupQueue{batch: min(max(1, g.Batch), dispatch.MaxBatch), duration: max(0, g.Duration)}
		largest = max(largest, q.batch)
		p.groups = append(p.groups, q)
		for _, a := range g.Applications {
			if a.Class < 0 {
				continue
			}
			for int(a.Class) >= len(p.place) {
				p.place = append(p.place, placement{group: -1})
			}
			p.place[a.Class] = placement{group: int32(i), timeout: max(0, a.Timeout), slo: max(0, a.SLO)}
		}
	}
	p.batch = make([]dispatch.RequestID, 0, largest)
	return p
}

// Name is "grouped".
func (p *grouped) Name() string { return "grouped" }

// Len is the number of requests that wait.
func (p *grouped) Len() int { return p.waiting }

// Step takes in one event.
func (p *grouped) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.now = max(p.now, now)
	p.batch = p.batch[:0]
	if p.armed <= p.now {
		p.armed = never
	}
	switch ev.Kind {
	case dispatch.Arrive:
		out = p.arrive(ev.Request, out)
	case dispatch.Cancel:
		p.cancel(ev.Request)
	case dispatch.ExecutorUp:
		if ev.Group >= 0 && int(ev.Group) < len(p.groups) {
			p.fleet.Join(ev.Executor, ev.Group, p.now)
			out = p.serve(ev.Group, out)
		}
	case dispatch.ExecutorFree:
		if p.fleet.Has(ev.Executor) {
			p.fleet.Freed(ev.Executor, p.now)
			out = p.serve(p.fleet.Execs[ev.Executor].Group, out)
		}
	case dispatch.ExecutorGone:
		if p.fleet.Has(ev.Executor) {
			g := p.fleet.Execs[ev.Executor].Group
			p.fleet.Leave(ev.Executor)
			out = p.serve(g, out)
		}
	}
	for p.wakes.Next() <= p.now {
		out = p.serve(p.wakes.Top(), out)
	}
	return p.arm(out)
}

func (p *grouped) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	if r.Class < 0 || int(r.Class) >= len(p.place) || p.place[r.Class].group < 0 || p.waiting >= p.max {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	at := p.place[r.Class]
	g := &p.groups[at.group]
	w := patient{id: r.ID, leave: r.Arrival + at.timeout, last: never}
	switch {
	case r.Deadline != 0:
		w.last = r.Deadline - g.duration
	case at.slo > 0:
		w.last = r.Arrival + at.slo - g.duration
	}
	if w.last < p.now {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
	}
	w.leave = min(w.leave, w.last) // a caller in a hurry is not kept waiting
	g.queue.insert(w)
	p.waiting++
	return p.serve(at.group, out)
}

// cancel forgets a request, looking into the queue of its class first.
func (p *grouped) cancel(r dispatch.Request) {
	first := int32(0)
	if r.Class >= 0 && int(r.Class) < len(p.place) {
		first = max(0, p.place[r.Class].group)
	}
	for i := range p.groups {
		group := (int(first) + i) % len(p.groups)
		if p.groups[group].queue.remove(r.ID) {
			p.waiting--
			p.watch(int32(group))
			return
		}
	}
}

// serve sends what is ready of a group, and drops what has become late.
func (p *grouped) serve(group int32, out []dispatch.Action) []dispatch.Action {
	g := &p.groups[group]
	for g.queue.n > 0 {
		if g.queue.at(0).last < p.now {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: g.queue.pop().id, Reason: dispatch.Late})
			p.waiting--
			continue
		}
		ready := g.queue.n >= g.batch || g.queue.at(0).leave <= p.now
		if !ready || p.fleet.Open[group].N == 0 {
			break
		}
		out = p.start(group, out)
	}
	p.watch(group)
	return out
}

// start sends the requests whose timeouts pass first.
func (p *grouped) start(group int32, out []dispatch.Action) []dispatch.Action {
	g := &p.groups[group]
	id := dispatch.ExecutorID(p.fleet.Open[group].First())
	from := len(p.batch)
	for len(p.batch)-from < g.batch && g.queue.n > 0 {
		w := g.queue.pop()
		p.waiting--
		if w.last < p.now {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: w.id, Reason: dispatch.Late})
			continue
		}
		p.batch = append(p.batch, w.id)
	}
	p.fleet.Send(id, p.now+g.duration)
	batch := slices.Clip(p.batch[from:])
	return append(out, dispatch.Action{Act: dispatch.Start, Executor: id, Group: group, Batch: batch})
}

// watch notes when the group needs a look: when a timeout passes, or, where no
// executor idles, when the first request becomes late.
func (p *grouped) watch(group int32) {
	g := &p.groups[group]
	at := never
	if g.queue.n > 0 {
		at = g.queue.at(0).leave
		if p.fleet.Open[group].N == 0 {
			at = g.queue.at(0).last
			if at != never {
				at++
			}
		}
	}
	if at == never {
		p.wakes.Drop(group)
		return
	}
	p.wakes.Set(group, at)
}

// arm asks for a timer unless one that comes no later is set already.
func (p *grouped) arm(out []dispatch.Action) []dispatch.Action {
	wake := p.wakes.Next()
	if wake == never || p.armed <= wake {
		return out
	}
	p.armed = max(wake, p.now)
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.armed})
}

// patient is what a group keeps of a waiting request.
type patient struct {
	id    dispatch.RequestID
	leave dispatch.Time // when its timeout passes
	last  dispatch.Time // the latest start that meets its deadline; never where it has none
}

// patients is a ring of requests in the order in which their timeouts pass; of
// those that pass together, the first to come stands first. It grows and never
// shrinks.
type patients struct {
	buf  []patient // length is a power of two
	head int
	n    int
}

func (q *patients) at(i int) *patient { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

// insert puts the request behind all whose timeouts pass no later.
func (q *patients) insert(w patient) {
	if q.n == len(q.buf) {
		buf := make([]patient, max(16, 2*len(q.buf)))
		for i := range q.n {
			buf[i] = *q.at(i)
		}
		q.buf, q.head = buf, 0
	}
	i := q.n
	q.n++
	for ; i > 0 && q.at(i-1).leave > w.leave; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = w
}

// pop takes the first request; there must be one.
func (q *patients) pop() patient {
	w := *q.at(0)
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	return w
}

// remove takes out the request of that name and reports whether it was there.
func (q *patients) remove(id dispatch.RequestID) bool {
	for i := range q.n {
		if q.at(i).id != id {
			continue
		}
		for ; i < q.n-1; i++ {
			*q.at(i) = *q.at(i + 1)
		}
		q.n--
		return true
	}
	return false
}

// Describe draws the policy: one line a group.
func (p *grouped) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "grouped: %d waiting\n", p.waiting)
	for i := range p.groups {
		g := &p.groups[i]
		fmt.Fprintf(&b, "  group %d (batch %d): %d of %d executors idle, %d wait",
			i, g.batch, p.fleet.Open[i].N, p.fleet.Ups[i], g.queue.n)
		if g.queue.n > 0 {
			fmt.Fprintf(&b, ", the first until %v", g.queue.at(0).leave)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
