package matching

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// decide drops what cannot be served in time, pairs what waits with instances,
// and starts the pairs whose instance idles.
func (p *matching) decide(out []dispatch.Action) []dispatch.Action {
	if len(p.up) == 0 {
		return p.overdue(out)
	}
	p.updateCoefficients()
	out = p.doomed(out)
	if p.idle == 0 || len(p.waiting) == 0 {
		return out
	}
	p.look()
	m := min(len(p.waiting), p.width*len(p.soonest))
	p.price(m)
	p.started = grown(p.started, m)
	clear(p.started)
	for k, i := range p.solver.Solve(p.cost, len(p.soonest), m) {
		if i >= 0 {
			out = p.start(p.soonest[k], int(i), out)
		}
	}
	p.compact(m)
	return out
}

// updateCoefficients brings the coefficients up to what was learned.
func (p *matching) updateCoefficients() {
	if p.fixed {
		return
	}
	base := p.types[p.base].predict(p.largest)
	for g := range p.types {
		p.coefficients[g] = 1
		if own := p.types[g].predict(p.largest); own > 0 && base > 0 {
			p.coefficients[g] = float64(base) / float64(own)
		}
	}
}

// overdue drops what is past its deadline, where no instance is up.
func (p *matching) overdue(out []dispatch.Action) []dispatch.Action {
	kept := 0
	p.earliest = never
	for _, r := range p.waiting {
		if p.now > r.Deadline {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
			continue
		}
		p.earliest = min(p.earliest, r.Deadline+1)
		p.waiting[kept] = r
		kept++
	}
	p.waiting = p.waiting[:kept]
	return out
}

// doomed drops every query that would be late even on the instance that could
// finish it first, and notes the latencies of those that are looked at next. With
// deadlines in the order of arrivals, it ends where none can be late any more.
func (p *matching) doomed(out []dispatch.Action) []dispatch.Action {
	for g := range p.latency {
		p.latency[g] = grown(p.latency[g], len(p.waiting))
	}
	first := p.firstFree()
	safe := never // deadlines from there on are kept
	if !p.uneven && first[p.base] < never-p.worst {
		safe = first[p.base] + p.worst
	}
	looked := p.width * min(len(p.up), p.most)
	kept, i := 0, 0
	p.earliest = never
	for ; i < len(p.waiting); i++ {
		r := p.waiting[i]
		if kept >= looked && r.Deadline >= safe {
			p.earliest = min(p.earliest, r.Deadline)
			break
		}
		done := never
		for g, at := range first {
			if at == never {
				continue
			}
			need := p.expect(g, r.Size)
			p.latency[g][kept] = need
			done = min(done, at+need)
		}
		if done > r.Deadline {
			if first[p.base] == p.now && r.Deadline-p.now > p.slo-p.margin {
				p.types[p.base].doubt(r.Size) // the base idles, and is declared to be in time
			}
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
			continue
		}
		p.earliest = min(p.earliest, r.Deadline)
		p.waiting[kept] = r
		kept++
	}
	p.close(kept, i)
	return out
}

// close takes what lies between two places out of the queue.
func (p *matching) close(from, to int) {
	if from < to {
		p.waiting = p.waiting[:from+copy(p.waiting[from:], p.waiting[to:])]
	}
}

// expect is how long a query is to take on a type. The base meets the objective at every
// size, so a size that nothing is known of is tried there, whatever others let fear.
func (p *matching) expect(g int, size int32) dispatch.Time {
	need := p.types[g].predict(size)
	if int32(g) == p.base && need > p.slo/2 && !p.types[g].knows(size) {
		return p.slo / 2
	}
	return need
}

// firstFree is when an instance of each type is first free.
func (p *matching) firstFree() []dispatch.Time {
	p.first = grown(p.first, len(p.types))
	for g := range p.first {
		p.first[g] = never
	}
	for _, id := range p.up {
		x := &p.instances[id]
		p.first[x.group] = min(p.first[x.group], x.freeAt(p.now))
	}
	return p.first
}

// freeAt is when the instance is predicted to be free. One that takes longer
// than predicted is taken to be free the next moment.
func (x *instance) freeAt(now dispatch.Time) dispatch.Time {
	if !x.busy {
		return now
	}
	return max(now+1, x.until)
}

// look chooses the instances of a decision.
func (p *matching) look() {
	p.soonest = append(p.soonest[:0], p.up...)
	if len(p.up) <= p.most {
		return
	}
	slices.SortFunc(p.soonest, func(a, b dispatch.ExecutorID) int {
		return cmp.Or(cmp.Compare(p.instances[a].freeAt(p.now), p.instances[b].freeAt(p.now)), cmp.Compare(a, b))
	})
	p.soonest = p.soonest[:p.most]
}

// price fills the matrix of costs, a row for each instance and a column for
// each of the first m queries (Eq. 4 and 8).
func (p *matching) price(m int) {
	p.cost = grown(p.cost, m*len(p.soonest))
	late, near := int64(latePenalty*p.slo), int64(nearPenalty*p.slo)
	for k, id := range p.soonest {
		x := &p.instances[id]
		free, weight := x.freeAt(p.now), p.coefficients[x.group]
		row, latency, spread := p.cost[k*m:(k+1)*m], p.latency[x.group], p.types[x.group].spread()
		for i := range row {
			done := free + latency[i]
			switch due := p.waiting[i].Deadline; {
			case done > due:
				row[i] = late
			case done > due-min(p.margin, dispatch.Time(spread*float64(latency[i]))):
				row[i] = near
			default:
				row[i] = int64(weight * float64(done-p.now))
			}
		}
	}
}

// start runs query i on the instance, if that idles and will be in time.
func (p *matching) start(id dispatch.ExecutorID, i int, out []dispatch.Action) []dispatch.Action {
	x, r := &p.instances[id], &p.waiting[i]
	need := p.latency[x.group][i]
	if x.busy || p.now+need > r.Deadline {
		return out
	}
	x.busy, x.size, x.since, x.until = true, r.Size, p.now, p.now+need
	p.idle--
	p.started[i] = true
	at := len(p.batches)
	p.batches = append(p.batches, r.ID)
	return append(out, dispatch.Action{Act: dispatch.Start, Executor: id, Group: x.group, Class: r.Class, Batch: p.batches[at : at+1 : at+1]})
}

// compact takes out of the first m of the queue what has started.
func (p *matching) compact(m int) {
	kept := 0
	for i, r := range p.waiting[:m] {
		if !p.started[i] {
			p.waiting[kept] = r
			kept++
		}
	}
	p.close(kept, m)
}

// Describe draws the policy: one line a type, with what is known of it.
func (p *matching) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "matching: %d waiting\n", len(p.waiting))
	for g := range p.types {
		up, idle := 0, 0
		for _, id := range p.up {
			if x := &p.instances[id]; int(x.group) == g {
				up++
				if !x.busy {
					idle++
				}
			}
		}
		fmt.Fprintf(&b, "  %s: %d of %d instances idle, coefficient %.2f, %s\n",
			p.types[g].name, idle, up, p.coefficients[g], p.types[g].describe())
	}
	return b.String()
}

// grown is a slice of length n, in the memory of s where that suffices.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 2*cap(s)))
	}
	return s[:n]
}
