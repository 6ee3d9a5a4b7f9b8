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

// Application states how long the requests of one application wait.
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
	Groups []groupQueue
	Place  []placement // by class
	Fleet  dispatch.Fleet
	Wakes  dispatch.Agenda // groups, by when they need a look without an event
	Max    int

	Now     dispatch.Time
	Armed   dispatch.Time // the timer that the driver holds; never when none
	Waiting int
	batch   []dispatch.RequestID `json:"-"`
}

// placement is what becomes of the requests of a class; group is -1 where the
// class is unknown.
type placement struct {
	Group   int32
	Timeout dispatch.Time
	SLO     dispatch.Time
}

type groupQueue struct {
	Batch    int
	Duration dispatch.Time
	Queue    patients
}

// New builds the policy. A request goes to the queue of its
// application's group. The queue is sent as one batch as soon as it holds
// Batch requests or the timeout of any request in it has passed: no request
// waits longer than its own application's timeout while an executor of the
// group idles. Where none does, requests leave in the order in which their
// timeouts pass, Batch at a time, and those that could not finish in time any
// more are dropped as Late.
func New(o Options) dispatch.Policy {
	p := &grouped{Fleet: dispatch.NewFleet(max(1, len(o.Groups))), Wakes: dispatch.NewAgenda(len(o.Groups)), Max: o.MaxQueue, Armed: never}
	if p.Max <= 0 {
		p.Max = dispatch.DefaultMaxQueue
	}
	largest := 1
	for i, g := range o.Groups {
		q := groupQueue{Batch: min(max(1, g.Batch), dispatch.MaxBatch), Duration: max(0, g.Duration)}
		largest = max(largest, q.Batch)
		p.Groups = append(p.Groups, q)
		for _, a := range g.Applications {
			if a.Class < 0 {
				continue
			}
			for int(a.Class) >= len(p.Place) {
				p.Place = append(p.Place, placement{Group: -1})
			}
			p.Place[a.Class] = placement{Group: int32(i), Timeout: max(0, a.Timeout), SLO: max(0, a.SLO)}
		}
	}
	p.batch = make([]dispatch.RequestID, 0, largest)
	return p
}

// Name is "grouped".
func (p *grouped) Name() string { return "grouped" }

// Len is the number of requests that wait.
func (p *grouped) Len() int { return p.Waiting }

// Step takes in one event.
func (p *grouped) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.Now = max(p.Now, now)
	p.batch = p.batch[:0]
	if p.Armed <= p.Now {
		p.Armed = never
	}
	switch ev.Kind {
	case dispatch.Arrive:
		out = p.arrive(ev.Request, out)
	case dispatch.Cancel:
		p.cancel(ev.Request)
	case dispatch.ExecutorUp:
		if ev.Group >= 0 && int(ev.Group) < len(p.Groups) {
			p.Fleet.Join(ev.Executor, ev.Group, p.Now)
			out = p.serve(ev.Group, out)
		}
	case dispatch.ExecutorFree:
		if p.Fleet.Has(ev.Executor) {
			p.Fleet.Freed(ev.Executor, p.Now)
			out = p.serve(p.Fleet.Execs[ev.Executor].Group, out)
		}
	case dispatch.ExecutorGone:
		if p.Fleet.Has(ev.Executor) {
			g := p.Fleet.Execs[ev.Executor].Group
			p.Fleet.Leave(ev.Executor)
			out = p.serve(g, out)
		}
	}
	for p.Wakes.Next() <= p.Now {
		out = p.serve(p.Wakes.Top(), out)
	}
	return p.arm(out)
}

func (p *grouped) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	if r.Class < 0 || int(r.Class) >= len(p.Place) || p.Place[r.Class].Group < 0 || p.Waiting >= p.Max {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	at := p.Place[r.Class]
	g := &p.Groups[at.Group]
	w := patient{ID: r.ID, Leave: r.Arrival + at.Timeout, Last: never}
	switch {
	case r.Deadline != 0:
		w.Last = r.Deadline - g.Duration
	case at.SLO > 0:
		w.Last = r.Arrival + at.SLO - g.Duration
	}
	if w.Last < p.Now {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
	}
	w.Leave = min(w.Leave, w.Last) // a caller in a hurry is not kept waiting
	g.Queue.insert(w)
	p.Waiting++
	return p.serve(at.Group, out)
}

// cancel forgets a request, looking into the queue of its class first.
func (p *grouped) cancel(r dispatch.Request) {
	first := int32(0)
	if r.Class >= 0 && int(r.Class) < len(p.Place) {
		first = max(0, p.Place[r.Class].Group)
	}
	for i := range p.Groups {
		group := (int(first) + i) % len(p.Groups)
		if p.Groups[group].Queue.remove(r.ID) {
			p.Waiting--
			p.watch(int32(group))
			return
		}
	}
}

// serve sends what is ready of a group, and drops what has become late.
func (p *grouped) serve(group int32, out []dispatch.Action) []dispatch.Action {
	g := &p.Groups[group]
	for g.Queue.N > 0 {
		if g.Queue.at(0).Last < p.Now {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: g.Queue.pop().ID, Reason: dispatch.Late})
			p.Waiting--
			continue
		}
		ready := g.Queue.N >= g.Batch || g.Queue.at(0).Leave <= p.Now
		if !ready || p.Fleet.Open[group].N == 0 {
			break
		}
		out = p.start(group, out)
	}
	p.watch(group)
	return out
}

// start sends the requests whose timeouts pass first.
func (p *grouped) start(group int32, out []dispatch.Action) []dispatch.Action {
	g := &p.Groups[group]
	id := dispatch.ExecutorID(p.Fleet.Open[group].First())
	from := len(p.batch)
	for len(p.batch)-from < g.Batch && g.Queue.N > 0 {
		w := g.Queue.pop()
		p.Waiting--
		if w.Last < p.Now {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: w.ID, Reason: dispatch.Late})
			continue
		}
		p.batch = append(p.batch, w.ID)
	}
	p.Fleet.Send(id, p.Now+g.Duration)
	batch := slices.Clip(p.batch[from:])
	return append(out, dispatch.Action{Act: dispatch.Start, Executor: id, Group: group, Batch: batch})
}

// watch notes when the group needs a look: when a timeout passes, or, where no
// executor idles, when the first request becomes late.
func (p *grouped) watch(group int32) {
	g := &p.Groups[group]
	at := never
	if g.Queue.N > 0 {
		at = g.Queue.at(0).Leave
		if p.Fleet.Open[group].N == 0 {
			at = g.Queue.at(0).Last
			if at != never {
				at++
			}
		}
	}
	if at == never {
		p.Wakes.Drop(group)
		return
	}
	p.Wakes.Set(group, at)
}

// arm sets a timer unless one that fires no later is set already.
func (p *grouped) arm(out []dispatch.Action) []dispatch.Action {
	wake := p.Wakes.Next()
	if wake == never || p.Armed <= wake {
		return out
	}
	p.Armed = max(wake, p.Now)
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.Armed})
}

// patient is what a group keeps of a waiting request.
type patient struct {
	ID    dispatch.RequestID
	Leave dispatch.Time // when its timeout passes
	Last  dispatch.Time // the latest start that meets its deadline; never where it has none
}

// patients is a ring of requests in the order in which their timeouts pass; of
// those that pass together, the first to come stands first. It grows and never
// shrinks.
type patients struct {
	Buf  []patient // length is a power of two
	Head int
	N    int
}

func (q *patients) at(i int) *patient { return &q.Buf[(q.Head+i)&(len(q.Buf)-1)] }

// insert puts the request behind all whose timeouts pass no later.
func (q *patients) insert(w patient) {
	if q.N == len(q.Buf) {
		buf := make([]patient, max(16, 2*len(q.Buf)))
		for i := range q.N {
			buf[i] = *q.at(i)
		}
		q.Buf, q.Head = buf, 0
	}
	i := q.N
	q.N++
	for ; i > 0 && q.at(i-1).Leave > w.Leave; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = w
}

// pop takes the first request; there must be one.
func (q *patients) pop() patient {
	w := *q.at(0)
	q.Head = (q.Head + 1) & (len(q.Buf) - 1)
	q.N--
	return w
}

// remove takes out the request of that name and reports whether it was there.
func (q *patients) remove(id dispatch.RequestID) bool {
	for i := range q.N {
		if q.at(i).ID != id {
			continue
		}
		for ; i < q.N-1; i++ {
			*q.at(i) = *q.at(i + 1)
		}
		q.N--
		return true
	}
	return false
}

// Describe draws the policy: one line a group.
func (p *grouped) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "grouped: %d waiting\n", p.Waiting)
	for i := range p.Groups {
		g := &p.Groups[i]
		fmt.Fprintf(&b, "  group %d (batch %d): %d of %d executors idle, %d wait",
			i, g.Batch, p.Fleet.Open[i].N, p.Fleet.Ups[i], g.Queue.N)
		if g.Queue.N > 0 {
			fmt.Fprintf(&b, ", the first until %v", g.Queue.at(0).Leave)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
