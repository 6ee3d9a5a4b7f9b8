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
	if len(p.Up) == 0 {
		return p.overdue(out)
	}
	p.updateCoefficients()
	out = p.doomed(out)
	if p.Idle == 0 || len(p.Waiting) == 0 {
		return out
	}
	p.look()
	m := min(len(p.Waiting), p.Width*len(p.soonest))
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
	if p.Fixed {
		return
	}
	base := p.Types[p.Base].predict(p.Largest)
	for g := range p.Types {
		p.Coefficients[g] = 1
		if own := p.Types[g].predict(p.Largest); own > 0 && base > 0 {
			p.Coefficients[g] = float64(base) / float64(own)
		}
	}
}

// overdue drops what is past its deadline, where no instance is up.
func (p *matching) overdue(out []dispatch.Action) []dispatch.Action {
	kept := 0
	p.Earliest = never
	for _, r := range p.Waiting {
		if p.Now > r.Deadline {
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
			continue
		}
		p.Earliest = min(p.Earliest, r.Deadline+1)
		p.Waiting[kept] = r
		kept++
	}
	p.Waiting = p.Waiting[:kept]
	return out
}

// doomed drops every query that would be late even on the instance that could
// finish it first, and notes the latencies of those that are looked at next. With
// deadlines in the order of arrivals, it ends where none can be late any more.
func (p *matching) doomed(out []dispatch.Action) []dispatch.Action {
	for g := range p.latency {
		p.latency[g] = grown(p.latency[g], len(p.Waiting))
	}
	first := p.firstFree()
	safe := never // deadlines from there on are kept
	if !p.Uneven && first[p.Base] < never-p.Worst {
		safe = first[p.Base] + p.Worst
	}
	looked := p.Width * min(len(p.Up), p.Most)
	kept, i := 0, 0
	p.Earliest = never
	for ; i < len(p.Waiting); i++ {
		r := p.Waiting[i]
		if kept >= looked && r.Deadline >= safe {
			p.Earliest = min(p.Earliest, r.Deadline)
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
			if first[p.Base] == p.Now && r.Deadline-p.Now > p.SLO-p.Margin {
				p.Types[p.Base].doubt(r.Size) // the base idles, and is declared to be in time
			}
			out = append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Late})
			continue
		}
		p.Earliest = min(p.Earliest, r.Deadline)
		p.Waiting[kept] = r
		kept++
	}
	p.close(kept, i)
	return out
}

// close takes what lies between two places out of the queue.
func (p *matching) close(from, to int) {
	if from < to {
		p.Waiting = p.Waiting[:from+copy(p.Waiting[from:], p.Waiting[to:])]
	}
}

// expect is how long a query is to take on a type. The base meets the objective at every
// size, so a size that nothing is known of is tried there, whatever others let fear.
func (p *matching) expect(g int, size int32) dispatch.Time {
	need := p.Types[g].predict(size)
	if int32(g) == p.Base && need > p.SLO/2 && !p.Types[g].knows(size) {
		return p.SLO / 2
	}
	return need
}

// firstFree is when an instance of each type is first free.
func (p *matching) firstFree() []dispatch.Time {
	p.first = grown(p.first, len(p.Types))
	for g := range p.first {
		p.first[g] = never
	}
	for _, id := range p.Up {
		x := &p.Instances[id]
		p.first[x.Group] = min(p.first[x.Group], x.freeAt(p.Now))
	}
	return p.first
}

// freeAt is when the instance is predicted to be free. One that takes longer
// than predicted is taken to be free the next moment.
func (x *instance) freeAt(now dispatch.Time) dispatch.Time {
	if !x.Busy {
		return now
	}
	return max(now+1, x.Until)
}

// look chooses the instances of a decision.
func (p *matching) look() {
	p.soonest = append(p.soonest[:0], p.Up...)
	if len(p.Up) <= p.Most {
		return
	}
	slices.SortFunc(p.soonest, func(a, b dispatch.ExecutorID) int {
		return cmp.Or(cmp.Compare(p.Instances[a].freeAt(p.Now), p.Instances[b].freeAt(p.Now)), cmp.Compare(a, b))
	})
	p.soonest = p.soonest[:p.Most]
}

// price fills the matrix of costs, a row for each instance and a column for
// each of the first m queries (Eq. 4 and 8).
func (p *matching) price(m int) {
	p.cost = grown(p.cost, m*len(p.soonest))
	late, near := int64(latePenalty*p.SLO), int64(nearPenalty*p.SLO)
	for k, id := range p.soonest {
		x := &p.Instances[id]
		free, weight := x.freeAt(p.Now), p.Coefficients[x.Group]
		row, latency, spread := p.cost[k*m:(k+1)*m], p.latency[x.Group], p.Types[x.Group].spread()
		for i := range row {
			done := free + latency[i]
			switch due := p.Waiting[i].Deadline; {
			case done > due:
				row[i] = late
			case done > due-min(p.Margin, dispatch.Time(spread*float64(latency[i]))):
				row[i] = near
			default:
				row[i] = int64(weight * float64(done-p.Now))
			}
		}
	}
}

// start runs query i on the instance, if that idles and will be in time.
func (p *matching) start(id dispatch.ExecutorID, i int, out []dispatch.Action) []dispatch.Action {
	x, r := &p.Instances[id], &p.Waiting[i]
	need := p.latency[x.Group][i]
	if x.Busy || p.Now+need > r.Deadline {
		return out
	}
	x.Busy, x.Size, x.Since, x.Until = true, r.Size, p.Now, p.Now+need
	p.Idle--
	p.started[i] = true
	at := len(p.batches)
	p.batches = append(p.batches, r.ID)
	return append(out, dispatch.Action{Act: dispatch.Start, Executor: id, Group: x.Group, Class: r.Class, Batch: p.batches[at : at+1 : at+1]})
}

// compact takes out of the first m of the queue what has started.
func (p *matching) compact(m int) {
	kept := 0
	for i, r := range p.Waiting[:m] {
		if !p.started[i] {
			p.Waiting[kept] = r
			kept++
		}
	}
	p.close(kept, m)
}

// Describe draws the policy: one line a type, with what is known of it.
func (p *matching) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "matching: %d waiting\n", len(p.Waiting))
	for g := range p.Types {
		up, idle := 0, 0
		for _, id := range p.Up {
			if x := &p.Instances[id]; int(x.Group) == g {
				up++
				if !x.Busy {
					idle++
				}
			}
		}
		fmt.Fprintf(&b, "  %s: %d of %d instances idle, coefficient %.2f, %s\n",
			p.Types[g].Name, idle, up, p.Coefficients[g], p.Types[g].describe())
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
