package tc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// DurationTable is how long a batch of each size takes in the group.
func (g Group) DurationTable() []time.Duration {
	if len(g.Durations) > 0 {
		return g.Durations
	}
	return slices.Repeat([]time.Duration{g.Duration}, max(1, g.Batch))
}

// MonotoneDurations is how long a batch takes by its size, for every size up to a full batch, none
// shorter than a smaller one; at least one, and not negative.
func (g Group) MonotoneDurations() []time.Duration {
	all := make([]time.Duration, max(1, g.Batch))
	longest := time.Duration(0)
	for n := range all {
		d := g.Duration
		if n < len(g.Durations) {
			d = g.Durations[n]
		}
		longest = max(longest, d)
		all[n] = longest
	}
	return all
}

func newGroup(o Group) group {
	g := group{Items: max(0, o.Items), AnyPhase: o.AnyPhase, Spread: max(0, min(o.Spread, o.Window)), Batch: max(1, o.Batch), Window: max(0, o.Window), Period: max(0, o.Period), Deadline: o.Deadline, Shared: o.Deadline != 0, ReportedNeed: needUnreported, Again: never}
	if g.Period == 0 {
		g.Period = g.Window
	}
	g.Window -= g.Spread
	g.Durations = o.MonotoneDurations()
	g.Needs = dispatch.Reservation{Duration: g.Durations[g.Batch-1], Period: g.Period, Deadline: g.Deadline, Window: g.Window}
	if g.Items > 0 {
		g.Needs.AtOnce, g.Period = int32((g.Items+g.Batch-1)/g.Batch), 0
	}
	return g
}

// open reports whether a batch is being collected.
func (g *group) open() bool { return g.Queue.N > g.Closed }

// offer reports when the batch that a request of this virtual arrival would join
// is due by the schedule, and false when none has been released by then. Batches
// whose due date has passed without a request are passed over.
func (g *group) offer(arrival dispatch.Time) (dispatch.Time, bool) {
	if !g.open() {
		g.pass(arrival)
		if g.Release-g.Spread > arrival {
			return 0, false
		}
	}
	return g.Release + g.Window, true
}

// pass goes on to the first batch that is due no sooner than the arrival.
func (g *group) pass(arrival dispatch.Time) {
	if g.Release+g.Window < arrival {
		g.Release = g.following(arrival)
	}
}

// following is the first release of the schedule that is due no sooner than that.
func (g *group) following(due dispatch.Time) dispatch.Time {
	late := due - g.Window - g.Release
	if g.Period == 0 {
		return g.Release + late
	}
	return g.Release + (late+g.Period-1)/g.Period*g.Period
}

// openDue is when the open batch is due: one window after its first request, and
// where devices are used to the full one window after its release, though its
// first request came later. The executor of a batch is free in time for the one
// that follows it there only if batches start by then.
func (g *group) openDue() dispatch.Time {
	if g.Items > 0 {
		return g.Queue.at(g.Closed).Arrival + g.Window
	}
	first := g.Queue.at(g.Closed).Arrival
	if g.Spread > 0 {
		first = max(first, g.Release)
	}
	return min(g.Release+g.spare(), first) + g.Window
}

// spare is how long after its due date by the schedule a batch may start without
// delay to those that follow. A shared device has none: it must not be needed
// more than once in a period.
func (g *group) spare() dispatch.Time {
	if g.Shared {
		return 0
	}
	return max(0, dispatch.Time(g.Ups)*g.Period-g.Durations[g.Batch-1])
}

// add puts a request into the open batch, or opens one with it. A group that a
// burst pushes ahead owes at most one period, so that the burst is not paid for
// later.
func (g *group) add(r dispatch.Request, now dispatch.Time) {
	if g.Queue.N == 0 {
		g.Since = now
	}
	if !g.open() {
		g.Release = min(g.Release, r.Arrival+max(g.Period, g.Spread))
	}
	if g.Queue.insert(r) < g.Closed {
		g.Closed++
	}
	if g.Queue.N-g.Closed >= g.Batch {
		g.shut(g.closeAt(now, false))
	}
}

// shut ends the collection of the open batch. The next is released one period
// after it. On a shared device a batch that is full waits until it is due, or is
// granted an early start.
func (g *group) shut(due dispatch.Time) {
	if g.Closed == 0 {
		g.Hold = due
	}
	g.Closed = g.Queue.N
	g.Release += g.Period
}

// remove takes a cancelled request out.
func (g *group) remove(id dispatch.RequestID) bool {
	i := g.Queue.remove(id)
	if i >= 0 && i < g.Closed {
		g.Closed--
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
	takes := g.Durations[min(g.Batch, g.Queue.N)-1]
	if free {
		takes = g.Pace.Within(now, takes, freeClose)
	}
	if g.Queue.Earliest-takes >= at {
		return at // no deadline is sooner
	}
	for i := g.Closed; i < g.Queue.N; i++ {
		if d := g.Queue.at(i).Deadline; d != 0 {
			at = min(at, d-takes)
		}
	}
	return at
}

// wake is when the group next needs attention without any other event; need is
// the time that a batch of one takes. With free starts what has been closed waits
// for its device and for nothing else; stolen means that an executor of another group may
// take what waits here when it closes.
func (g *group) wake(now, need dispatch.Time, free, stolen bool) dispatch.Time {
	at := g.Queue.lateAt(need)
	if len(g.Idle) == 0 {
		if stolen && g.open() {
			at = min(at, g.closeAt(now, free))
		}
		return at
	}
	at = min(at, g.Again)
	if g.Closed > 0 && !free {
		at = min(at, g.Hold)
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
	g.Delay += (max(0, over) - g.Delay) / weight
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

// fifo is a ring of requests in the order of their virtual arrivals; of equal
// ones, the first to come stands first. It grows and never shrinks.
type fifo struct {
	Buf  []dispatch.Request // length is a power of two
	Head int
	N    int

	// earliest is no later than any deadline in the ring. It may be the
	// deadline of a request that has left; the next look corrects it.
	Earliest dispatch.Time
}

func (q *fifo) at(i int) *dispatch.Request {
	return &q.Buf[(q.Head+i)&(len(q.Buf)-1)]
}

// insert puts the request in its place and returns its position.
func (q *fifo) insert(r dispatch.Request) int {
	if q.N == len(q.Buf) {
		q.grow()
	}
	if q.N == 0 {
		q.Earliest = never
	}
	if r.Deadline != 0 {
		q.Earliest = min(q.Earliest, r.Deadline)
	}
	i := q.N
	q.N++
	for ; i > 0 && q.at(i-1).Arrival > r.Arrival; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = r
	return i
}

func (q *fifo) grow() {
	buf := make([]dispatch.Request, max(16, 2*len(q.Buf)))
	for i := range q.N {
		buf[i] = *q.at(i)
	}
	q.Buf, q.Head = buf, 0
}

// pop takes the first request; there must be one.
func (q *fifo) pop() dispatch.Request {
	r := *q.at(0)
	q.Head = (q.Head + 1) & (len(q.Buf) - 1)
	q.N--
	return r
}

// remove takes out the request of that name and returns where it stood, or -1.
func (q *fifo) remove(id dispatch.RequestID) int {
	for i := range q.N {
		if q.at(i).ID == id {
			q.removeAt(i)
			return i
		}
	}
	return -1
}

func (q *fifo) removeAt(i int) {
	for ; i < q.N-1; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	q.N--
}

// drain moves everything to the end of out.
func (q *fifo) drain(out []dispatch.Request) []dispatch.Request {
	for q.N > 0 {
		out = append(out, q.pop())
	}
	return out
}

// lateAt is the first instant at which some request may have become late, when
// running it takes need.
func (q *fifo) lateAt(need dispatch.Time) dispatch.Time {
	if q.N == 0 || q.Earliest == never {
		return never
	}
	return q.Earliest - need + 1
}

// takeLate moves every request that would be late if it started now and took need to
// the end of given. It lowers waiting for each, and closed for each that stood before it.
func (q *fifo) takeLate(now, need dispatch.Time, waiting, closed *int, given []dispatch.Request) []dispatch.Request {
	if now < q.lateAt(need) {
		return given
	}
	q.Earliest = never
	kept := 0
	was := 0
	if closed != nil {
		was = *closed
	}
	for i, n := 0, q.N; i < n; i++ {
		r := *q.at(i)
		if late(&r, now, need) {
			given = append(given, r)
			*waiting--
			if i < was {
				*closed--
			}
			continue
		}
		if r.Deadline != 0 {
			q.Earliest = min(q.Earliest, r.Deadline)
		}
		*q.at(kept) = r
		kept++
	}
	q.N = kept
	return given
}

// late reports whether the request would miss its deadline if it started now and
// took need.
func late(r *dispatch.Request, now, need dispatch.Time) bool {
	return r.Deadline != 0 && r.Deadline-need < now
}

// Describe draws the policy: one line a group, with what it collects and the
// executors that idle.
func (p *tc) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "tc: %d waiting\n", p.Waiting)
	for i := range p.Groups {
		g := &p.Groups[i]
		fmt.Fprintf(&b, "  group %d (batch %d): %d of %d executors idle, %d closed, %d open",
			i, g.Batch, len(g.Idle), g.Ups, g.Closed, g.Queue.N-g.Closed)
		if g.open() {
			fmt.Fprintf(&b, ", closes at %v", g.closeAt(p.Now, p.free()))
		}
		b.WriteByte('\n')
	}
	if p.Orphans.N > 0 {
		fmt.Fprintf(&b, "  %d wait for an executor\n", p.Orphans.N)
	}
	return b.String()
}
