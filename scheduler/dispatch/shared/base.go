package shared

import (
	"fmt"
	"strings"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// never is the instant that does not come.
const never = dispatch.Never

// base is what all policies of a cluster have in common: the lines of
// waiting requests, the executors, the clock and the timer.
type base struct {
	lines  []line // by class
	models []modelState
	fleet  dispatch.Fleet

	delay   dispatch.Delay
	margin  dispatch.Time
	max     int
	now     dispatch.Time
	armed   dispatch.Time         // the timer that the driver holds; never when none
	asked   dispatch.Time         // likewise, until it has come
	waiting int                   // requests in all lines
	batch   []dispatch.RequestID  `record:"-"`
	parked  []int32               // models to look at anew when executors change: the open ones are too slow for them
	late    []givenUp             `record:"-"` // in this step; see settle
	firsts  []dispatch.ExecutorID `record:"-"` // by group, likewise
	runs    [][2]run              // by ExecutorID: what it runs, and what was sent ahead
	tardy   dispatch.Time         // how late timers have lately come
	slips   slips                 // how much longer than profiled batches have lately been away
	wakes   dispatch.Agenda       // lines with requests, by when to look at them again
}

// modelState is a model made ready: its profiles and its rate.
type modelState struct {
	tables []profile       // by group
	paces  []dispatch.Pace // by group: what batches take in terms of their profile
	plan   profile         // the slowest of the groups that are up; all where none is
	least  dispatch.Time   // a batch of one on the fastest executor, delay included
	slo    dispatch.Time
	meter  dispatch.Meter
	target int // the batch to aim for; what it means is the policy's affair

	// What adaptive keeps.
	aim    float64       // the target between whole numbers
	fixed  float64       // seconds that a batch takes beyond those of its requests
	often  float64       // time that one more request takes, as a share of a batch
	alone  float64       // how much of what waiting may gain it does: 0 where nothing of a batch's time is fixed
	spared float64       // likewise, of what giving up requests for larger batches may gain
	size   int           // of the batch that would start now
	last   dispatch.Time // when a request came last
	losses losses
}

// apart is the least capacity of what is written all the time: smaller slices
// may share a cache line with those of a policy on another core.
const apart = 16

// newBase reads the options, mended: every model has a table, and the batch
// arena holds the largest batch, so that steps do not allocate.
func newBase(o Options) base {
	groups, largest := 1, 1
	for _, m := range o.Models {
		groups = max(groups, len(m.Groups))
	}
	p := base{
		lines: make([]line, len(o.Models), max(len(o.Models), apart)), fleet: dispatch.NewFleet(groups), armed: never, asked: never, max: o.MaxQueue, firsts: make([]dispatch.ExecutorID, groups),
		delay: dispatch.Delay{Control: max(0, o.Delay.Control), PerRequest: max(0, o.Delay.PerRequest)}, margin: max(0, o.Margin),
	}
	if p.max <= 0 {
		p.max = dispatch.DefaultMaxQueue
	}
	p.models = make([]modelState, 0, max(len(o.Models), apart))
	p.wakes = dispatch.NewAgenda(len(o.Models))
	for _, m := range o.Models {
		pm := newModelState(m, groups)
		largest = max(largest, len(pm.tables[0]))
		p.models = append(p.models, pm)
	}
	p.batch = make([]dispatch.RequestID, 0, largest)
	p.replan()
	return p
}

func newModelState(m Model, groups int) modelState {
	pm := modelState{slo: max(1, m.SLO), meter: dispatch.NewMeter(m.Rate)}
	for g := range groups {
		table := m.Durations
		if g < len(m.Groups) && len(m.Groups[g]) > 0 {
			table = m.Groups[g]
		}
		pm.tables, pm.paces = append(pm.tables, newProfile(table)), append(pm.paces, dispatch.Pace{})
	}
	return pm
}

// replan looks anew at which groups have executors.
func (p *base) replan() {
	for i := range p.models {
		m := &p.models[i]
		m.plan, m.least = nil, never
		for g, t := range m.tables {
			if p.fleet.Ups[g] == 0 && p.fleet.Up > 0 {
				continue
			}
			alone := p.delay.Of(1) + t[0]
			if alone > m.slo && m.plan != nil {
				continue // too slow for this model, and not needed
			}
			if m.least > m.slo {
				m.plan = nil // what came before was too slow
			}
			m.least = min(m.least, alone)
			if m.plan == nil {
				m.plan = t
			} else if &m.plan[0] != &t[0] {
				m.plan = slowest(m.plan, t)
			}
		}
	}
}

// Len is the number of requests that wait.
func (p *base) Len() int { return p.waiting }

// begin opens a step: time does not run backwards.
func (p *base) begin(now dispatch.Time, ev *dispatch.Event) {
	p.now = max(p.now, now)
	p.batch = p.batch[:0]
	if p.armed <= p.now {
		p.armed = never
	}
	if ev.Kind == dispatch.Timer && p.asked <= p.now {
		p.tardy = max(p.now-p.asked, p.tardy-p.tardy/tardyFade)
		p.asked = never
	}
	p.fleet.Advance(p.now)
}

// tardyFade is how many timers it takes until one that came late is forgotten.
const tardyFade = 16

// early is how much sooner than at the last instant a batch is looked at, for timers
// that come late; at most a quarter of the model's time.
func (p *base) early(class int32) dispatch.Time { return min(p.tardy, p.models[class].slo/4) }

// change takes in an event about executors.
func (p *base) change(ev *dispatch.Event) {
	up := p.fleet.Up
	switch ev.Kind {
	case dispatch.ExecutorUp:
		p.fleet.Join(ev.Executor, ev.Group, p.now)
		p.slips.forget(p.now, ev.Executor, &p.fleet)
		up = -1
	case dispatch.ExecutorFree:
		p.learn(ev)
		p.fleet.Freed(ev.Executor, p.now)
	case dispatch.ExecutorGone:
		p.fleet.Leave(ev.Executor)
		p.slips.forget(p.now, ev.Executor, &p.fleet)
	}
	if up != p.fleet.Up && len(p.fleet.Ups) > 1 {
		p.replan()
		for c := range p.lines { // what is late follows from the plans
			if p.lines[c].n > 0 {
				p.parked = append(p.parked, int32(c))
			}
		}
	}
}

// unpark takes out one of those parked.
func (p *base) unpark() int32 {
	last := len(p.parked) - 1
	class := p.parked[last]
	p.parked = p.parked[:last]
	return class
}

// admit puts a request into its line, or drops it as Full where there is no room or no
// such model. It gives it up where even alone it would miss its deadline.
func (p *base) admit(r *dispatch.Request, out []dispatch.Action) ([]dispatch.Action, bool) {
	if r.Class < 0 || int(r.Class) >= len(p.lines) {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full}), false
	}
	m := &p.models[r.Class]
	w := p.waiterOf(r)
	switch {
	case p.now+m.least > w.due:
		p.giveUp(r.Class, w)
		return out, false
	case p.waiting >= p.max:
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full}), false
	}
	p.lines[r.Class].insert(w)
	p.waiting++
	return out, true
}

func (p *base) waiterOf(r *dispatch.Request) waiter {
	w := waiter{id: r.ID, due: r.Deadline, kept: p.kept(r.Class)}
	if w.due == 0 {
		w.due = r.Arrival + p.models[r.Class].slo
	}
	w.due -= w.kept
	return w
}

// cancel forgets a request and returns its class, or -1.
func (p *base) cancel(r *dispatch.Request) int32 {
	if r.Class >= 0 && int(r.Class) < len(p.lines) {
		due := dispatch.Time(0)
		if r.Deadline != 0 {
			due = r.Deadline - p.kept(r.Class)
		}
		if p.withdraw(r.Class, r.ID, due) {
			return r.Class
		}
	}
	for c := range p.lines {
		if p.withdraw(int32(c), r.ID, 0) {
			return int32(c)
		}
	}
	return -1
}

func (p *base) withdraw(class int32, id dispatch.RequestID, due dispatch.Time) bool {
	i := p.lines[class].find(id, due)
	if i < 0 {
		return false
	}
	p.lines[class].remove(i)
	p.waiting--
	return true
}

// dropFirst gives up the first k requests of a line.
func (p *base) dropFirst(class int32, k int) {
	q := &p.lines[class]
	for i := range k {
		p.giveUp(class, *q.at(i))
	}
	q.skip(k)
	p.waiting -= k
}

// dropLate gives up the requests that no executor could serve in time.
func (p *base) dropLate(class int32) {
	q, k := &p.lines[class], 0
	for k < q.n && q.due(k) < p.now+p.models[class].least {
		k++
	}
	p.dropFirst(class, k)
}

// expire gives up the requests of a line that are late and sets when the next will be.
func (p *base) expire(line int32) {
	p.dropLate(line)
	if q := &p.lines[line]; q.n > 0 {
		p.wakes.Set(line, q.due(0)-p.models[line].least+1)
	} else {
		p.wakes.Drop(line)
	}
}

// offer is the chance that an executor offers to a model.
func (p *base) offer(class int32, id dispatch.ExecutorID) offer {
	e := &p.fleet.Execs[id]
	return offer{now: p.now, free: e.Free, delay: p.delay, table: p.models[class].tables[e.Group], late: p.slips.beyond(p.now, id)}
}

// planned is the chance that an idle executor would offer to a model now.
func (p *base) planned(class int32) offer {
	return offer{now: p.now, free: p.now, delay: p.delay, table: p.models[class].plan}
}

// start sends the first b requests of a line to an open executor.
func (p *base) start(class int32, id dispatch.ExecutorID, b int, out []dispatch.Action) []dispatch.Action {
	q := &p.lines[class]
	from := len(p.batch)
	for i := range b {
		p.batch = append(p.batch, q.at(i).id)
	}
	q.skip(b)
	p.waiting -= b
	return p.launch(class, id, from, out)
}

// launch sends what stands in the batch arena from that place on.
func (p *base) launch(class int32, id dispatch.ExecutorID, from int, out []dispatch.Action) []dispatch.Action {
	s, b := p.offer(class, id), len(p.batch)-from
	a := dispatch.Action{Act: dispatch.Start, Executor: id, Group: p.fleet.Execs[id].Group, Class: class, Batch: p.batch[from:len(p.batch):len(p.batch)]}
	if p.delay != (dispatch.Delay{}) {
		a.At = s.begin(b)
	}
	for int(id) >= len(p.runs) {
		p.runs = append(p.runs, [2]run{})
	}
	r := run{class: class, size: int32(b), begin: s.begin(b)}
	if p.fleet.Execs[id].Pending == 0 {
		p.runs[id] = [2]run{r}
	} else {
		p.runs[id][1] = r
	}
	p.fleet.Send(id, s.begin(b)+s.table.of(b))
	return append(out, a)
}

// lead is how far ahead of its end an executor may be sent the next batch: the
// longest delay of a target batch.
func (p *base) lead() dispatch.Time {
	lead := dispatch.Time(0)
	for i := range p.models {
		lead = max(lead, p.delay.Of(p.models[i].target))
	}
	return lead
}

// arm asks for a timer unless one that comes no later is set already.
func (p *base) arm(wake dispatch.Time, out []dispatch.Action) []dispatch.Action {
	wake = min(wake, p.fleet.Wake())
	if wake == never || p.armed <= wake {
		return out
	}
	p.armed = max(wake, p.now)
	p.asked = p.armed
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.armed})
}

// line is a ring of waiting requests, the one due first at the head; of
// requests due together, the first to come stands first. With one SLO for all
// that is the order of arrival. It grows and never shrinks.
type line struct {
	buf  []waiter // length is a power of two
	head int
	n    int
}

// waiter is what a cluster keeps of a request.
type waiter struct {
	id   dispatch.RequestID
	due  dispatch.Time // deadline less what is kept
	kept dispatch.Time
}

func (q *line) at(i int) *waiter { return &q.buf[(q.head+i)&(len(q.buf)-1)] }

// due is when the i-th request must be done.
func (q *line) due(i int) dispatch.Time { return q.buf[(q.head+i)&(len(q.buf)-1)].due }

// insert puts the request behind all that are due no later.
func (q *line) insert(w waiter) {
	if q.n == len(q.buf) {
		q.grow()
	}
	i := q.n
	q.n++
	for ; i > 0 && q.due(i-1) > w.due; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = w
}

func (q *line) grow() {
	buf := make([]waiter, max(16, 2*len(q.buf)))
	for i := range q.n {
		buf[i] = *q.at(i)
	}
	q.buf, q.head = buf, 0
}

// skip forgets the first k requests.
func (q *line) skip(k int) {
	q.head = (q.head + k) & (len(q.buf) - 1)
	q.n -= k
}

// find tells where the request stands, or -1. A due time other than zero is
// searched first.
func (q *line) find(id dispatch.RequestID, due dispatch.Time) int {
	if due != 0 {
		for i := q.first(due); i < q.n && q.due(i) == due; i++ {
			if q.at(i).id == id {
				return i
			}
		}
	}
	for i := range q.n {
		if q.at(i).id == id {
			return i
		}
	}
	return -1
}

// first is the place of the first request due at that time or later.
func (q *line) first(due dispatch.Time) int {
	low, high := 0, q.n
	for low < high {
		mid := (low + high) / 2
		if q.due(mid) < due {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// remove takes out the i-th request, moving the shorter side.
func (q *line) remove(i int) {
	if i < q.n/2 {
		for ; i > 0; i-- {
			*q.at(i) = *q.at(i - 1)
		}
		q.skip(1)
		return
	}
	for ; i < q.n-1; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	q.n--
}

// describe draws what all cluster policies share: one line for the executors and
// one for each model that waits or has a known rate.
func (p *base) describe(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d waiting, %d of %d executors open\n", name, p.waiting, p.fleet.Opens, p.fleet.Up)
	for i := range p.models {
		q, m := &p.lines[i], &p.models[i]
		if q.n == 0 && m.meter.Rate == 0 {
			continue
		}
		fmt.Fprintf(&b, "  class %d: %d waiting, target batch %d", i, q.n, m.target)
		if q.n > 0 {
			fmt.Fprintf(&b, ", first due by %v", q.due(0))
		}
		if m.meter.Rate > 0 {
			fmt.Fprintf(&b, ", %.4g requests/s", m.meter.Rate)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
