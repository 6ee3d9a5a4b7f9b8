package tc

import (
	"slices"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// Early starts. An idle executor may run requests that its group's schedule would
// have wait: those of the open batch, and those that have come before their
// virtual arrival. Such a batch is one more than the schedule has. Taking its requests away
// does no harm, since those that are left can go where they would have gone; the open batch
// stays open, with room again. What must be shown is that every executor is free when the
// schedule needs it.
//
// Devices of its own. Let the group's next batches be due at u_1 <= u_2 <= ...,
// a period apart, and its n executors be free from f_1 <= ... <= f_n on. If
// f_i <= u_i for every i up to n, batch i finds executor i free and leaves it by
// u_i + d <= u_i + n·P = u_(i+n), and so on for ever. So a batch starts early if
// that still holds with the end of the batch in place of now.
//
// Shared devices: see Arbiter.

// share finds out whether a group shares its devices: it goes by its first executor.
func (p *tc) share(at int32) {
	g := &p.Groups[at]
	g.Shared = g.Deadline != 0
	for i := range p.Execs {
		if e := &p.Execs[i]; p.Asks && e.Up && e.Group == at {
			g.Shared = g.Shared && !e.Alone
			return
		}
	}
}

func (p *tc) deviceAlone(id dispatch.ExecutorID, alone bool) {
	if id < 0 || int(id) >= len(p.Execs) || !p.Execs[id].Up {
		return
	}
	p.Execs[id].Alone = alone
	p.share(p.Execs[id].Group)
}

// waitEarly keeps a request that has come before its virtual arrival.
func (p *tc) waitEarly(r dispatch.Request) {
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Queue.N == 0 && p.Early.N == 0 {
			g.Since = p.Now
		}
	}
	p.Early.insert(r)
}

// mayStart reports whether the first closed batch may start on an idle executor.
func (p *tc) mayStart(g *group) bool {
	if !g.Shared || g.Hold <= p.Now {
		return true
	}
	return p.Asks && p.granted(g, g.Queue.at(0), g.Durations[min(g.Batch, g.Queue.N)-1], true)
}

// awaitsAnswer reports whether the driver owes an answer.
func (p *tc) awaitsAnswer() bool { return p.Question.Act == dispatch.Ask }

// granted reports whether the device of an idle executor is granted for a batch that begins
// with that request; counted means that it is the next one of the schedule. The first call
// for a batch asks and returns false; the answer brings the group up again. The device goes
// to the request that ends first, so that work on a request is finished before more is
// begun.
func (p *tc) granted(g *group, first *dispatch.Request, takes dispatch.Time, counted bool) bool {
	id := g.Idle[0]
	switch {
	case p.awaitsAnswer():
		p.Again = true
		return false
	case p.Answer.Kind == 0:
		due := first.End
		if due == 0 {
			due = first.Deadline
		}
		if due == 0 {
			due = first.Arrival + g.Window + g.Deadline
		}
		p.Question = dispatch.Action{Act: dispatch.Ask, Executor: id, At: p.Now + takes, Due: due}
		if counted {
			p.Question.Reservation = &g.Needs
		}
		return false
	case p.Answer.Executor != id || p.Answer.Kind == dispatch.Granted && p.Now+takes > p.Answer.At:
		return false
	}
	answer := p.Answer
	p.Answer = dispatch.Event{}
	if answer.Kind == dispatch.Refused {
		g.Again = min(g.Again, answer.At)
	}
	return answer.Kind == dispatch.Granted
}

// answered takes in the answer to the open question. A grant that is no longer needed is
// given back.
func (p *tc) answered(ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	if !p.awaitsAnswer() || p.Question.Executor != ev.Executor {
		return p.release(ev, out)
	}
	if p.Answer = ev; ev.Kind == dispatch.Granted {
		p.Answer.At = p.Question.At
	}
	p.Question, p.Cursor = dispatch.Action{}, int(p.Execs[ev.Executor].Group)
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
	g := &p.Groups[at]
	size := min(g.Batch, g.Queue.N+p.Early.N)
	if p.Starts == EarlyNever || g.Closed > 0 || size == 0 {
		return false
	}
	if from := g.Since + g.Delay; from > p.Now {
		g.Again = min(g.Again, from)
		return false
	}
	takes := g.Durations[size-1]
	if !p.inTime(g, size, p.Now+takes) {
		return false
	}
	if g.Shared {
		// Its own schedule needs the device a window after the next request, whenever that comes:
		// time alone does not make room.
		anew := takes > g.Window && p.fresh(p.Now, -1)
		if !p.Asks || anew || !p.granted(g, p.next(g, 0), takes, false) {
			return false
		}
	} else if !g.AnyPhase && !p.canSpare(at, p.Now+takes, size >= g.Queue.N) {
		return false
	}
	for range size {
		p.batch = append(p.batch, p.pop(g).ID)
	}
	return true
}

// next is the i-th request that an executor of the group could take.
func (p *tc) next(g *group, i int) *dispatch.Request {
	if i < g.Queue.N {
		return g.Queue.at(i)
	}
	return p.Early.at(i - g.Queue.N)
}

// pop takes the first of them.
func (p *tc) pop(g *group) dispatch.Request {
	p.Waiting--
	if g.Queue.N == 0 {
		return p.Early.pop()
	}
	g.Closed = max(0, g.Closed-1)
	return g.Queue.pop()
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
// withoutOpen reports that no batch of it is open from now on.
func (p *tc) canSpare(at int32, end dispatch.Time, withoutOpen bool) bool {
	g := &p.Groups[at]
	if end <= p.needed(at, len(g.Idle)-1, withoutOpen) {
		return true
	}
	p.frees = p.frees[:0]
	for i := range p.Execs {
		if e := &p.Execs[i]; e.Up && e.Busy && e.Group == at {
			p.frees = append(p.frees, e.expected())
		}
	}
	p.frees = append(p.frees, end)
	slices.Sort(p.frees)
	for i, free := range p.frees {
		if free > p.needed(at, len(g.Idle)-1+i, withoutOpen) {
			return false
		}
	}
	return true
}

// needed is when the schedule needs an executor of a group for its i-th batch
// from now on, at the earliest, counted from 0.
func (p *tc) needed(at int32, i int, withoutOpen bool) dispatch.Time {
	g, but := &p.Groups[at], int32(-1)
	open := g.open() && !withoutOpen
	if withoutOpen {
		but = at
	}
	release := g.Release
	switch {
	case g.Items > 0: // whenever a burst comes
		return 0
	case i == 0 && open:
		return max(p.Now, g.openDue())
	case p.fresh(p.Now, but):
		release = p.Now
	case !open && release+g.Window < p.Now: // passed over, or begun again later
		release = min(g.following(p.Now), p.Now)
	}
	if i == 0 {
		return min(release+g.spare(), max(release, p.Now)) + g.Window
	}
	return release + dispatch.Time(i)*g.Period + g.Window
}

// noteDrops notes whether requests are dropped as Late.
func (p *tc) noteDrops(actions []dispatch.Action) {
	for i := range actions {
		p.Missed = p.Missed || actions[i].Act == dispatch.Drop && actions[i].Reason == dispatch.Late
	}
}

// voidIfBroken voids the promise for a while where a request was late, or more come than it is for.
// Then it is tried again for as long, even if requests are late: fully used devices keep up
// only by the schedule of the plan, and what waits from before is late at first.
func (p *tc) voidIfBroken() {
	if p.Starts == EarlyWithinPromise && (p.Missed && p.Now >= p.Trial || ExceedsPlannedRate(p.Meter.Rate, p.Declared)) {
		p.Void = p.Now + VoidFor
		p.Trial = p.Void + VoidFor
	}
	p.Missed = false
}

// ExceedsPlannedRate reports whether clearly more requests a second come than a plan is for; 0 is not known.
func ExceedsPlannedRate(rate, declared float64) bool {
	return declared > 0 && rate > beyondShare*declared+beyondRate
}

// report reports when a shared device is needed next, where that has changed.
func (p *tc) report(at int32, out []dispatch.Action) []dispatch.Action {
	g := &p.Groups[at]
	if !p.Asks || g.Deadline <= 0 {
		return out
	}
	need := never
	switch {
	case p.free():
	case g.Closed > 0:
		need = max(p.Now, g.Hold)
	default:
		need = p.needed(at, 0, false)
	}
	if need == g.ReportedNeed {
		return out
	}
	g.ReportedNeed = need
	for i := range p.Execs {
		if e := &p.Execs[i]; e.Up && e.Group == at {
			out = append(out, dispatch.Action{Act: dispatch.Need, Executor: dispatch.ExecutorID(i), At: need, Reservation: &g.Needs})
		}
	}
	return out
}
