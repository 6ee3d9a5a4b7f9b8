package shared

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// What a policy gives up in a step is not dropped before its end. Lateness is judged by
// profiles, with a margin before every deadline, and by what is best for the batches
// behind; an executor that idles all the same when all has been decided costs nothing.
// So it takes what was given up, as far as that can still be in time, by the deadline
// itself and by what batches have lately taken.

// givenUp is a request that nothing is held back for any more.
type givenUp struct {
	waiter
	class int32
}

// run is a batch that was launched; its size is 0 where there is none.
type run struct {
	class, size int32
	begin       dispatch.Time
}

func (p *pool) giveUp(class int32, w waiter) { p.late = append(p.late, givenUp{w, class}) }

// settle closes a step: idle executors take what they can of what was given up, and
// the rest is dropped as Late.
func (p *pool) settle(out []dispatch.Action) []dispatch.Action {
	known := false // who is first
	for i := 0; i < len(p.late); {
		id, best := dispatch.ExecutorID(-1), 0
		for g := range p.fleet.Open {
			if p.fleet.Open[g].N == 0 {
				continue
			}
			if !known {
				p.firsts[g] = p.first(g)
			}
			e := p.firsts[g]
			b := p.recoverable(i, e)
			if b == 0 {
				if other := p.soonest(g); other != e {
					e, b = other, p.recoverable(i, other)
				}
			}
			if b > best {
				id, best = e, b
			}
		}
		known = best == 0
		i, out = p.recover(i, best, id, out)
	}
	p.late = p.late[:0]
	return out
}

// recoverable is how many of those given up, from the i-th on, the executor could do in
// one batch and in time; 0 where it could not even do the first.
func (p *pool) recoverable(i int, id dispatch.ExecutorID) int {
	class := p.late[i].class
	s, pace := p.offer(class, id), &p.models[class].paces[p.fleet.Execs[id].Group]
	due, n := never, 0
	for _, w := range p.late[i:min(len(p.late), i+len(s.table))] {
		due = min(due, w.due+w.kept)
		if w.class != class || s.begin(n+1)+pace.Of(p.now, s.table.of(n+1)) > due {
			break
		}
		n++
	}
	return p.allowed(n)
}

// recover starts b of those given up, from the i-th on, or drops the i-th where b is 0.
// It returns the place of the next.
func (p *pool) recover(i, b int, id dispatch.ExecutorID, out []dispatch.Action) (int, []dispatch.Action) {
	if b == 0 {
		return i + 1, append(out, dispatch.Action{Act: dispatch.Drop, Request: p.late[i].id, Reason: dispatch.Late})
	}
	from := len(p.batch)
	for _, w := range p.late[i : i+b] {
		p.batch = append(p.batch, w.id)
	}
	return i + b, p.launch(p.late[i].class, id, from, out)
}

// learn takes in how long the batch took that an executor has ended. One that was sent ahead
// begins then.
func (p *pool) learn(ev *dispatch.Event) {
	if !p.fleet.Has(ev.Executor) || int(ev.Executor) >= len(p.runs) {
		return
	}
	sent := &p.runs[ev.Executor]
	r, e := sent[0], &p.fleet.Execs[ev.Executor]
	sent[0], sent[1] = sent[1], run{}
	sent[0].begin = max(sent[0].begin, p.now)
	if e.Pending == 0 || r.size == 0 || int(r.class) >= len(p.models) {
		return
	}
	m := &p.models[r.class]
	profiled, away := m.tables[e.Group].of(int(r.size)), max(p.now, ev.At)-r.begin
	p.slips.learn(p.now, ev.Executor, away-profiled, &p.fleet)
	m.paces[e.Group].Learn(p.now, profiled, ev.Took, away)
}
