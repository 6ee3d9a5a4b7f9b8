package shared

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// nexusEpoch is how long a plan of nexus stands while the executors stay the
// same (Symphony's comparison).
const nexusEpoch = 30 * time.Second

// nexus is Nexus's dispatch: see newNexus.
type nexus struct {
	pool     // one line, and one model, a session
	classes  []nexusModel
	sessions []session
	cycles   []duty        // by ExecutorID
	planAt   dispatch.Time // when the epoch ends
	stale    bool          // executors came or went since the plan
}

// nexusModel is a model as declared, with what was measured of it.
type nexusModel struct {
	poolModel
	sessions []int32
	share    float64 // of its sessions together
}

// session is a model on one executor; its line has the same number. While no
// executor is up every model has one session on none.
type session struct {
	class    int32
	executor dispatch.ExecutorID
	share    float64 // requests per second that it is meant to take
	credit   float64 // of the round robin, in requests
}

// duty is an executor's round over its sessions.
type duty struct {
	sessions []int32
	turn     int
}

// newNexus builds Nexus (SOSP 2019) as Symphony's comparison configures it,
// with one frontend: for an epoch of 30 s models are packed onto executors by
// their rates; a request is dealt to one executor of its model when it
// arrives, round robin by weight; and every executor goes round its models and
// runs what has gathered, with Nexus's early drop. No request changes its
// executor, so that bursts meet full and idle executors side by side.
//
// The packing is that of section 6.1 there: a model that fills executors of
// its own runs the largest batch with 2·l(b) <= SLO; what remains of the rates
// shares executors in duty cycles, each where it fits best. All is stretched,
// or squeezed, to the executors that there are.
func newNexus(o Options) dispatch.Policy {
	p := &nexus{pool: newPool(o)}
	for i := range p.models {
		p.classes = append(p.classes, nexusModel{poolModel: p.models[i]})
	}
	p.lines, p.models = nil, nil
	return p
}

// Name is "nexus".
func (p *nexus) Name() string { return "nexus" }

// Describe draws the policy for logs and golden transcripts. Its classes are
// sessions: a model on an executor.
func (p *nexus) Describe() string { return p.describe("nexus") }

// Step takes one event and appends the actions that follow from it.
func (p *nexus) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.begin(now, &ev)
	switch ev.Kind {
	case dispatch.Arrive:
		if p.stale || p.now >= p.planAt {
			out = p.plan(out)
		}
		out = p.arrive(ev.Request, out)
	case dispatch.Cancel:
		p.forget(ev.Request)
	case dispatch.ExecutorFree:
		p.fleet.Freed(ev.Executor, p.now)
		out = p.serve(ev.Executor, out)
	case dispatch.ExecutorUp:
		p.fleet.Join(ev.Executor, ev.Group, p.now)
		p.stale = true
	case dispatch.ExecutorGone:
		p.fleet.Leave(ev.Executor)
		p.stale = true
	}
	if p.stale && p.waiting > 0 {
		out = p.plan(out)
	}
	for p.wakes.Next() <= p.now {
		p.expire(p.wakes.Top())
	}
	return p.arm(p.wakes.Next(), p.settle(out))
}

// settle is like that of other pools, but no request changes its executor.
func (p *nexus) settle(out []dispatch.Action) []dispatch.Action {
	for i := 0; i < len(p.late); {
		class, n := p.late[i].class, 0
		id := p.sessions[class].executor
		if p.fleet.Has(id) && p.fleet.Execs[id].Pending == 0 {
			n = p.recoverable(i, id)
		}
		if i, out = p.recover(i, n, id, out); n > 0 {
			out[len(out)-1].Class = p.sessions[class].class
		}
	}
	p.late = p.late[:0]
	return out
}

// arrive deals the request to the session of its model that has most credit.
func (p *nexus) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	if r.Class < 0 || int(r.Class) >= len(p.classes) {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	c := &p.classes[r.Class]
	c.meter.Hit(p.now)
	best := c.sessions[0]
	for _, i := range c.sessions {
		s := &p.sessions[i]
		s.credit += s.share / c.share
		if s.credit > p.sessions[best].credit {
			best = i
		}
	}
	p.sessions[best].credit--
	if r.Deadline == 0 {
		r.Deadline = r.Arrival + c.slo
	}
	r.Class = best
	out, ok := p.admit(&r, out)
	if !ok {
		return out
	}
	p.expire(best)
	return p.serve(p.sessions[best].executor, out)
}

// forget cancels a request wherever it waits.
func (p *nexus) forget(r dispatch.Request) {
	r.Class = -1 // lines are by session
	p.cancel(&r)
}

// serve runs the next session of an idle executor that has requests.
func (p *nexus) serve(id dispatch.ExecutorID, out []dispatch.Action) []dispatch.Action {
	if !p.fleet.Has(id) || p.fleet.Execs[id].Pending > 0 || int(id) >= len(p.cycles) {
		return out
	}
	d := &p.cycles[id]
	for range d.sessions {
		i := d.sessions[d.turn%len(d.sessions)]
		d.turn++
		q := &p.lines[i]
		if q.n == 0 {
			continue
		}
		s := p.offer(i, id)
		c := cutEarly(q, &s, p.models[i].target)
		p.dropFirst(i, c.drop)
		if c.size > 0 {
			out = p.start(i, id, c.size, out)
			out[len(out)-1].Class = p.sessions[i].class
		}
		p.expire(i)
		if c.size > 0 {
			return out
		}
	}
	return out
}
