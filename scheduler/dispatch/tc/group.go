package tc

import (
	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// open says whether a batch is being collected.
func (g *group) open() bool { return g.queue.n > g.closed }

// offer tells when the batch that a request of this virtual arrival would join
// is due by the schedule, and false when none has been released by then. Batches
// whose due date has passed without a request are passed over.
func (g *group) offer(arrival dispatch.Time) (dispatch.Time, bool) {
	if !g.open() {
		g.pass(arrival)
		if g.release > arrival {
			return 0, false
		}
	}
	return g.release + g.window, true
}

// pass goes on to the first batch that is due no sooner than the arrival.
func (g *group) pass(arrival dispatch.Time) {
	if g.release+g.window < arrival {
		g.release = g.following(arrival)
	}
}

// following is the first release of the schedule that is due no sooner than that.
func (g *group) following(due dispatch.Time) dispatch.Time {
	late := due - g.window - g.release
	if g.period == 0 {
		return g.release + late
	}
	return g.release + (late+g.period-1)/g.period*g.period
}

// openDue is when the open batch is due: one window after its first request, and
// where devices are used to the full one window after its release, though its
// first request came later. The executor of a batch is free in time for the one
// that follows it there only if batches start by then.
func (g *group) openDue() dispatch.Time {
	return min(g.release+g.spare(), g.queue.at(g.closed).Arrival) + g.window
}

// spare is how long after its due date by the schedule a batch may start without
// delay to those that follow. A shared device has none: it must not be needed
// more than once in a period.
func (g *group) spare() dispatch.Time {
	if g.shared {
		return 0
	}
	return max(0, dispatch.Time(g.ups)*g.period-g.durations[g.batch-1])
}

// add puts a request into the open batch, or opens one with it. A group that a
// burst pushes ahead owes at most one period, so that the burst is not paid for
// later.
func (g *group) add(r dispatch.Request, now dispatch.Time) {
	if g.queue.n == 0 {
		g.since = now
	}
	if !g.open() {
		g.release = min(g.release, r.Arrival+g.period)
	}
	if g.queue.insert(r) < g.closed {
		g.closed++
	}
	if g.queue.n-g.closed >= g.batch {
		g.shut(g.closeAt(now, false))
	}
}

// shut ends the collection of the open batch. The next is released one period
// after it. On a shared device a batch that is full waits until it is due, or is
// granted an early start.
func (g *group) shut(due dispatch.Time) {
	if g.closed == 0 {
		g.hold = due
	}
	g.closed = g.queue.n
	g.release += g.period
}

// remove takes a cancelled request out.
func (g *group) remove(id dispatch.RequestID) bool {
	i := g.queue.remove(id)
	if i >= 0 && i < g.closed {
		g.closed--
	}
	return i >= 0
}

// close marks all that waits as ready to run when the open batch is due.
func (g *group) close(now dispatch.Time, free bool) {
	if g.open() && g.closeAt(now, free) <= now {
		g.shut(now)
	}
}

// closeAt is when the open batch must start even if it is not full: with free starts as
// long before a deadline as nearly every batch has lately taken.
func (g *group) closeAt(now dispatch.Time, free bool) dispatch.Time {
	at := g.openDue()
	takes := g.durations[min(g.batch, g.queue.n)-1]
	if free {
		takes = g.pace.Within(now, takes, freeClose)
	}
	for i := g.closed; i < g.queue.n; i++ {
		if d := g.queue.at(i).Deadline; d != 0 {
			at = min(at, d-takes)
		}
	}
	return at
}

// wake is when the group next needs attention without any other event; need is
// the time that a batch of one takes. With free starts what has been closed waits
// for its device and for nothing else; relieved says that an executor of another group may
// take what waits here when it closes.
func (g *group) wake(now, need dispatch.Time, free, relieved bool) dispatch.Time {
	at := g.queue.lateAt(need)
	if len(g.idle) == 0 {
		if relieved && g.open() {
			at = min(at, g.closeAt(now, free))
		}
		return at
	}
	at = min(at, g.again)
	if g.closed > 0 && !free {
		at = min(at, g.hold)
	}
	if g.open() {
		at = min(at, g.closeAt(now, free))
	}
	return at
}

// learn takes in how long a batch took beyond its profile. The mean follows
// within some eight batches.
func (g *group) learn(over dispatch.Time) {
	const weight = 8
	g.delay += (max(0, over) - g.delay) / weight
}

// without removes one executor and keeps the order of the others.
func without(ids []dispatch.ExecutorID, id dispatch.ExecutorID) []dispatch.ExecutorID {
	for i := range ids {
		if ids[i] == id {
			return append(ids[:i], ids[i+1:]...)
		}
	}
	return ids
}
