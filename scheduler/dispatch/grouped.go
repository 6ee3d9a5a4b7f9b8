package dispatch

import (
	"fmt"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch/agenda"
)

// GroupedOptions configures policy grouped: applications that share a model in
// groups, each with a queue and a kind of function of its own (HarmonyBatch,
// sections III-B and IV-C).
type GroupedOptions struct {
	// Groups, by the Group that executors come up with. For a function an
	// executor stands for one invocation: as many come up as may run at once.
	Groups []FunctionGroup

	// MaxQueue is the most requests that may wait, of all groups together; one
	// more is dropped as Full. 0 means DefaultMaxPoolQueue.
	MaxQueue int
}

// FunctionGroup is the applications of one queue.
type FunctionGroup struct {
	Batch        int           // requests in a full batch; at least 1
	Duration     time.Duration // the longest that a batch takes
	Applications []Waiting
}

// Waiting says how long the requests of one application wait.
type Waiting struct {
	Class   int32         // that its requests have
	Timeout time.Duration // the longest wait for the batch to fill
	SLO     time.Duration // deadline of requests that have none, from arrival; 0 for none
}

// Check says what is wrong with the options. NewGrouped mends what Check
// refuses.
func (o GroupedOptions) Check() error {
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

// grouped is the policy: see NewGrouped.
type grouped struct {
	groups []groupQueue
	place  []placement // by class
	fleet  fleet
	wakes  agenda.Agenda // groups, by when they need a look without an event
	max    int

	now     Time
	armed   Time // the timer that the driver holds; never when none
	waiting int
	batch   []RequestID
}

// placement is what becomes of the requests of a class; group is -1 where the
// class is unknown.
type placement struct {
	group   int32
	timeout Time
	slo     Time
}

type groupQueue struct {
	batch    int
	duration Time
	queue    patients
}

// NewGrouped builds the policy. A request goes to the queue of its
// application's group. The queue is sent as one batch as soon as it holds
// Batch requests or the timeout of any request in it has passed: no request
// waits longer than its own application's timeout while an executor of the
// group idles. Where none does, requests leave in the order in which their
// timeouts pass, Batch at a time, and those that could not finish in time any
// more are dropped as Late.
func NewGrouped(o GroupedOptions) Policy {
	p := &grouped{fleet: newFleet(max(1, len(o.Groups))), wakes: agenda.New(len(o.Groups)), max: o.MaxQueue, armed: never}
	if p.max <= 0 {
		p.max = DefaultMaxPoolQueue
	}
	largest := 1
	for i, g := range o.Groups {
		q := groupQueue{batch: min(max(1, g.Batch), MaxPoolBatch), duration: max(0, g.Duration)}
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
	p.batch = make([]RequestID, 0, largest)
	return p
}

// Name is "grouped".
func (p *grouped) Name() string { return "grouped" }

// Len is the number of requests that wait.
func (p *grouped) Len() int { return p.waiting }

// Step takes in one event.
func (p *grouped) Step(now Time, ev Event, out []Action) []Action {
	p.now = max(p.now, now)
	p.batch = p.batch[:0]
	if p.armed <= p.now {
		p.armed = never
	}
	switch ev.Kind {
	case Arrive:
		out = p.arrive(ev.Request, out)
	case Cancel:
		p.cancel(ev.Request)
	case ExecutorUp:
		if ev.Group >= 0 && int(ev.Group) < len(p.groups) {
			p.fleet.join(ev.Executor, ev.Group, p.now)
			out = p.serve(ev.Group, out)
		}
	case ExecutorFree:
		if p.fleet.has(ev.Executor) {
			p.fleet.freed(ev.Executor, p.now)
			out = p.serve(p.fleet.execs[ev.Executor].group, out)
		}
	case ExecutorGone:
		if p.fleet.has(ev.Executor) {
			g := p.fleet.execs[ev.Executor].group
			p.fleet.leave(ev.Executor)
			out = p.serve(g, out)
		}
	}
	for p.wakes.Next() <= p.now {
		out = p.serve(p.wakes.Top(), out)
	}
	return p.arm(out)
}

func (p *grouped) arrive(r Request, out []Action) []Action {
	if r.Class < 0 || int(r.Class) >= len(p.place) || p.place[r.Class].group < 0 || p.waiting >= p.max {
		return append(out, Action{Act: Drop, Request: r.ID, Reason: Full})
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
		return append(out, Action{Act: Drop, Request: r.ID, Reason: Late})
	}
	w.leave = min(w.leave, w.last) // a caller in a hurry is not kept waiting
	g.queue.insert(w)
	p.waiting++
	return p.serve(at.group, out)
}

// cancel forgets a request, looking into the queue of its class first.
func (p *grouped) cancel(r Request) {
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
func (p *grouped) serve(group int32, out []Action) []Action {
	g := &p.groups[group]
	for g.queue.n > 0 {
		if g.queue.at(0).last < p.now {
			out = append(out, Action{Act: Drop, Request: g.queue.pop().id, Reason: Late})
			p.waiting--
			continue
		}
		ready := g.queue.n >= g.batch || g.queue.at(0).leave <= p.now
		if !ready || p.fleet.open[group].n == 0 {
			break
		}
		out = p.start(group, out)
	}
	p.watch(group)
	return out
}

// start sends the requests whose timeouts pass first.
func (p *grouped) start(group int32, out []Action) []Action {
	g := &p.groups[group]
	id := ExecutorID(p.fleet.open[group].first())
	from := len(p.batch)
	for len(p.batch)-from < g.batch && g.queue.n > 0 {
		w := g.queue.pop()
		p.waiting--
		if w.last < p.now {
			out = append(out, Action{Act: Drop, Request: w.id, Reason: Late})
			continue
		}
		p.batch = append(p.batch, w.id)
	}
	p.fleet.send(id, p.now+g.duration)
	batch := slices.Clip(p.batch[from:])
	return append(out, Action{Act: Start, Executor: id, Group: group, Batch: batch})
}

// watch notes when the group needs a look: when a timeout passes, or, where no
// executor idles, when the first request becomes late.
func (p *grouped) watch(group int32) {
	g := &p.groups[group]
	at := never
	if g.queue.n > 0 {
		at = g.queue.at(0).leave
		if p.fleet.open[group].n == 0 {
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
func (p *grouped) arm(out []Action) []Action {
	wake := p.wakes.Next()
	if wake == never || p.armed <= wake {
		return out
	}
	p.armed = max(wake, p.now)
	return append(out, Action{Act: SetTimer, At: p.armed})
}
