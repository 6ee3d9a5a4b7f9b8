package tc

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Early starts. An idle executor may run requests that its group's schedule would
// have wait: those of the open batch, and those that have come before their
// virtual arrival. Such a batch is one more than the schedule knows. Taking its
// requests away does no harm, since those that are left can go where they would
// have gone; the open batch stays open, with room again. What must be shown is
// that every executor is free when the schedule needs it.
//
// Devices of its own. Let the group's next batches be due at u_1 <= u_2 <= ...,
// a period apart, and its n executors be free from f_1 <= ... <= f_n on. If
// f_i <= u_i for every i up to n, batch i finds executor i free and leaves it by
// u_i + d <= u_i + n·P = u_(i+n), and so on for ever. So a batch starts early if
// that still holds with the end of the batch in place of now.
//
// Shared devices. Arbiter says when.

// share finds out whether a group shares its devices: it goes by its first executor.
func (p *tc) share(at int32) {
	g := &p.groups[at]
	g.shared = g.deadline != 0
	for i := range p.execs {
		if e := &p.execs[i]; p.asks && e.up && e.group == at {
			g.shared = g.shared && !e.alone
			return
		}
	}
}

func (p *tc) deviceAlone(id dispatch.ExecutorID, alone bool) {
	if id < 0 || int(id) >= len(p.execs) || !p.execs[id].up {
		return
	}
	p.execs[id].alone = alone
	p.share(p.execs[id].group)
}

// waitEarly keeps a request that has come before its virtual arrival.
func (p *tc) waitEarly(r dispatch.Request) {
	for i := range p.groups {
		if g := &p.groups[i]; g.queue.n == 0 && p.early.n == 0 {
			g.since = p.now
		}
	}
	p.early.insert(r)
}

// mayStart reports whether the first closed batch may start on an idle executor.
func (p *tc) mayStart(g *group) bool {
	if !g.shared || g.hold <= p.now {
		return true
	}
	return p.asks && p.granted(g, g.queue.at(0), g.durations[min(g.batch, g.queue.n)-1], true)
}

// awaitsAnswer reports whether the driver owes an answer.
func (p *tc) awaitsAnswer() bool { return p.question.Act == dispatch.Ask }

// granted reports whether the device of an idle executor is granted for a batch that begins with
// that request; counted says that it is the next one of the schedule. Where nobody has asked yet,
// it asks and says no; with the answer the group is looked at again. The device goes to what ends first, so that work on a request is finished
// before more is begun.
func (p *tc) granted(g *group, first *dispatch.Request, takes dispatch.Time, counted bool) bool {
	id := g.idle[0]
	switch {
	case p.awaitsAnswer():
		p.again = true
		return false
	case p.answer.Kind == 0:
		due := first.End
		if due == 0 {
			due = first.Deadline
		}
		if due == 0 {
			due = first.Arrival + g.window + g.deadline
		}
		p.question = dispatch.Action{Act: dispatch.Ask, Executor: id, At: p.now + takes, Due: due}
		if counted {
			p.question.Reservation = &g.needs
		}
		return false
	case p.answer.Executor != id || p.answer.Kind == dispatch.Granted && p.now+takes > p.answer.At:
		return false
	}
	answer := p.answer
	p.answer = dispatch.Event{}
	if answer.Kind == dispatch.Refused {
		g.again = min(g.again, answer.At)
	}
	return answer.Kind == dispatch.Granted
}

// answered takes in the answer to the open question. A grant that nobody waits for is given
// back.
func (p *tc) answered(ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	if !p.awaitsAnswer() || p.question.Executor != ev.Executor {
		return p.release(ev, out)
	}
	if p.answer = ev; ev.Kind == dispatch.Granted {
		p.answer.At = p.question.At
	}
	p.question, p.cursor = dispatch.Action{}, int(p.execs[ev.Executor].group)
	return out
}

// release gives a device back that was granted.
func (p *tc) release(answer dispatch.Event, out []dispatch.Action) []dispatch.Action {
	if answer.Kind == dispatch.Granted {
		out = append(out, dispatch.Action{Act: dispatch.Release, Executor: answer.Executor})
	}
	return out
}

// takeEarly moves what waits to p.batch, up to one batch, if that may start
// early.
func (p *tc) takeEarly(at int32) bool {
	g := &p.groups[at]
	size := min(g.batch, g.queue.n+p.early.n)
	if p.starts == EarlyNever || g.closed > 0 || size == 0 {
		return false
	}
	if from := g.since + g.delay; from > p.now {
		g.again = min(g.again, from)
		return false
	}
	takes := g.durations[size-1]
	if !p.inTime(g, size, p.now+takes) {
		return false
	}
	if g.shared {
		// Its own schedule needs the device a window after the next request, whenever that comes:
		// time alone does not make room.
		anew := takes > g.window && p.fresh(p.now, -1)
		if !p.asks || anew || !p.granted(g, p.next(g, 0), takes, false) {
			return false
		}
	} else if !p.canSpare(at, p.now+takes, size >= g.queue.n) {
		return false
	}
	for range size {
		p.batch = append(p.batch, p.pop(g).ID)
	}
	return true
}

// next is the i-th request that an executor of the group could take.
func (p *tc) next(g *group, i int) *dispatch.Request {
	if i < g.queue.n {
		return g.queue.at(i)
	}
	return p.early.at(i - g.queue.n)
}

// pop takes the first of them.
func (p *tc) pop(g *group) dispatch.Request {
	p.waiting--
	if g.queue.n == 0 {
		return p.early.pop()
	}
	g.closed = max(0, g.closed-1)
	return g.queue.pop()
}

// inTime reports whether all that would start early meet their deadlines.
func (p *tc) inTime(g *group, size int, end dispatch.Time) bool {
	for i := range size {
		if r := p.next(g, i); r.Deadline != 0 && r.Deadline < end {
			return false
		}
	}
	return true
}

// canSpare reports whether a group can do without an idle executor until then;
// withoutOpen says that no batch of it is open from now on.
func (p *tc) canSpare(at int32, end dispatch.Time, withoutOpen bool) bool {
	g := &p.groups[at]
	if end <= p.needed(at, len(g.idle)-1, withoutOpen) {
		return true
	}
	p.frees = p.frees[:0]
	for i := range p.execs {
		if e := &p.execs[i]; e.up && e.busy && e.group == at {
			p.frees = append(p.frees, e.expected())
		}
	}
	p.frees = append(p.frees, end)
	slices.Sort(p.frees)
	for i, free := range p.frees {
		if free > p.needed(at, len(g.idle)-1+i, withoutOpen) {
			return false
		}
	}
	return true
}

// needed is when the schedule needs an executor of a group for its i-th batch
// from now on, at the earliest, counted from 0.
func (p *tc) needed(at int32, i int, withoutOpen bool) dispatch.Time {
	g, but := &p.groups[at], int32(-1)
	open := g.open() && !withoutOpen
	if withoutOpen {
		but = at
	}
	release := g.release
	switch {
	case i == 0 && open:
		return max(p.now, g.openDue())
	case p.fresh(p.now, but):
		release = p.now
	case !open && release+g.window < p.now: // passed over, or begun anew later
		release = min(g.following(p.now), p.now)
	}
	if i == 0 {
		return min(release+g.spare(), max(release, p.now)) + g.window
	}
	return release + dispatch.Time(i)*g.period + g.window
}

// noteDrops notes whether requests are dropped as Late.
func (p *tc) noteDrops(actions []dispatch.Action) {
	for i := range actions {
		p.missed = p.missed || actions[i].Act == dispatch.Drop && actions[i].Reason == dispatch.Late
	}
}

// voidIfBroken voids the promise for a while where a request was late, or more come than it is for.
// Then it is tried again for as long, whoever is late: devices that are used to the full keep
// up by the schedule of the plan only, and what waits from before is late at first.
func (p *tc) voidIfBroken() {
	if p.starts == EarlyWithinPromise && (p.missed && p.now >= p.trial || ExceedsPlannedRate(p.meter.Rate, p.declared)) {
		p.void = p.now + VoidFor
		p.trial = p.void + VoidFor
	}
	p.missed = false
}

// ExceedsPlannedRate reports whether clearly more requests a second come than a plan is for; 0 is not known.
func ExceedsPlannedRate(rate, declared float64) bool {
	return declared > 0 && rate > beyondShare*declared+beyondRate
}

// report reports when a shared device is needed next, where that has changed.
func (p *tc) report(at int32, out []dispatch.Action) []dispatch.Action {
	g := &p.groups[at]
	if !p.asks || g.deadline <= 0 {
		return out
	}
	need := never
	switch {
	case p.free():
	case g.closed > 0:
		need = max(p.now, g.hold)
	default:
		need = p.needed(at, 0, false)
	}
	if need == g.reportedNeed {
		return out
	}
	g.reportedNeed = need
	for i := range p.execs {
		if e := &p.execs[i]; e.up && e.group == at {
			out = append(out, dispatch.Action{Act: dispatch.Need, Executor: dispatch.ExecutorID(i), At: need, Reservation: &g.needs})
		}
	}
	return out
}
