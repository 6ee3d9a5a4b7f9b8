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
	Lines  []line // by class
	Models []modelState
	Fleet  dispatch.Fleet

	Delay   dispatch.Delay
	Margin  dispatch.Time
	Max     int
	Now     dispatch.Time
	Armed   dispatch.Time         // the timer that the driver holds; never when none
	Asked   dispatch.Time         // likewise, until it has come
	Waiting int                   // requests in all lines
	batch   []dispatch.RequestID  `json:"-"`
	Parked  []int32               // models to look at again when executors change: the open ones are too slow for them
	late    []givenUp             `json:"-"` // in this step; see settle
	firsts  []dispatch.ExecutorID `json:"-"` // by group, likewise
	Runs    [][2]run              // by ExecutorID: what it runs, and what was sent ahead
	Tardy   dispatch.Time         // how late timers have lately come
	Slips   slips                 // how much longer than profiled batches have lately been away
	Wakes   dispatch.Agenda       // lines with requests, by when to look at them again
}

// modelState is a model made ready: its profiles and its rate.
type modelState struct {
	Tables []profile       // by group
	Paces  []dispatch.Pace // by group: what batches take in terms of their profile
	Plan   profile         // the slowest of the groups that are up; all where none is
	Least  dispatch.Time   // a batch of one on the fastest executor, delay included
	SLO    dispatch.Time
	Meter  dispatch.Meter
	Target int // the batch to aim for; what it means is the policy's affair

	// What adaptive keeps.
	Aim    float64       // the target between whole numbers
	Fixed  float64       // seconds that a batch takes beyond those of its requests
	Often  float64       // time that one more request takes, as a share of a batch
	Alone  float64       // how much of what waiting may gain it does: 0 where nothing of a batch's time is fixed
	Spared float64       // likewise, of what giving up requests for larger batches may gain
	Size   int           // of the batch that would start now
	Last   dispatch.Time // when a request came last
	Losses losses
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
		Lines: make([]line, len(o.Models), max(len(o.Models), apart)), Fleet: dispatch.NewFleet(groups), Armed: never, Asked: never, Max: o.MaxQueue, firsts: make([]dispatch.ExecutorID, groups),
		Delay: dispatch.Delay{Control: max(0, o.Delay.Control), PerRequest: max(0, o.Delay.PerRequest)}, Margin: max(0, o.Margin),
	}
	if p.Max <= 0 {
		p.Max = dispatch.DefaultMaxQueue
	}
	p.Models = make([]modelState, 0, max(len(o.Models), apart))
	p.Wakes = dispatch.NewAgenda(len(o.Models))
	for _, m := range o.Models {
		pm := newModelState(m, groups)
		largest = max(largest, len(pm.Tables[0]))
		p.Models = append(p.Models, pm)
	}
	p.batch = make([]dispatch.RequestID, 0, largest)
	p.replan()
	return p
}

func newModelState(m Model, groups int) modelState {
	pm := modelState{SLO: max(1, m.SLO), Meter: dispatch.NewMeter(m.Rate)}
	for g := range groups {
		table := m.Durations
		if g < len(m.Groups) && len(m.Groups[g]) > 0 {
			table = m.Groups[g]
		}
		pm.Tables, pm.Paces = append(pm.Tables, newProfile(table)), append(pm.Paces, dispatch.Pace{})
	}
	return pm
}

// replan looks again at which groups have executors.
func (p *base) replan() {
	for i := range p.Models {
		m := &p.Models[i]
		m.Plan, m.Least = nil, never
		for g, t := range m.Tables {
			if p.Fleet.Ups[g] == 0 && p.Fleet.Up > 0 {
				continue
			}
			alone := p.Delay.Of(1) + t[0]
			if alone > m.SLO && m.Plan != nil {
				continue // too slow for this model, and not needed
			}
			if m.Least > m.SLO {
				m.Plan = nil // what came before was too slow
			}
			m.Least = min(m.Least, alone)
			if m.Plan == nil {
				m.Plan = t
			} else if &m.Plan[0] != &t[0] {
				m.Plan = slowest(m.Plan, t)
			}
		}
	}
}

// Len is the number of requests that wait.
func (p *base) Len() int { return p.Waiting }

// begin opens a step: time does not run backwards.
func (p *base) begin(now dispatch.Time, ev *dispatch.Event) {
	p.Now = max(p.Now, now)
	p.batch = p.batch[:0]
	if p.Armed <= p.Now {
		p.Armed = never
	}
	if ev.Kind == dispatch.Timer && p.Asked <= p.Now {
		p.Tardy = max(p.Now-p.Asked, p.Tardy-p.Tardy/tardyFade)
		p.Asked = never
	}
	p.Fleet.Advance(p.Now)
}

// tardyFade is how many timers it takes until one that came late is forgotten.
const tardyFade = 16

// early is how much sooner than at the last instant a batch is looked at, for timers
// that come late; at most a quarter of the model's time.
func (p *base) early(class int32) dispatch.Time { return min(p.Tardy, p.Models[class].SLO/4) }

// change takes in an event about executors.
func (p *base) change(ev *dispatch.Event) {
	up := p.Fleet.Up
	switch ev.Kind {
	case dispatch.ExecutorUp:
		p.Fleet.Join(ev.Executor, ev.Group, p.Now)
		p.Slips.forget(p.Now, ev.Executor, &p.Fleet)
		up = -1
	case dispatch.ExecutorFree:
		p.learn(ev)
		p.Fleet.Freed(ev.Executor, p.Now)
	case dispatch.ExecutorGone:
		p.Fleet.Leave(ev.Executor)
		p.Slips.forget(p.Now, ev.Executor, &p.Fleet)
	}
	if up != p.Fleet.Up && len(p.Fleet.Ups) > 1 {
		p.replan()
		for c := range p.Lines { // what is late follows from the plans
			if p.Lines[c].N > 0 {
				p.Parked = append(p.Parked, int32(c))
			}
		}
	}
}

// unpark takes out one of those parked.
func (p *base) unpark() int32 {
	last := len(p.Parked) - 1
	class := p.Parked[last]
	p.Parked = p.Parked[:last]
	return class
}

// admit puts a request into its line, or drops it as Full where there is no room or no
// such model. It gives it up where even alone it would miss its deadline.
func (p *base) admit(r *dispatch.Request, out []dispatch.Action) ([]dispatch.Action, bool) {
	if r.Class < 0 || int(r.Class) >= len(p.Lines) {
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full}), false
	}
	m := &p.Models[r.Class]
	w := p.waiterOf(r)
	switch {
	case p.Now+m.Least > w.Due:
		p.giveUp(r.Class, w)
		return out, false
	case p.Waiting >= p.Max:
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full}), false
	}
	p.Lines[r.Class].insert(w)
	p.Waiting++
	return out, true
}

func (p *base) waiterOf(r *dispatch.Request) waiter {
	w := waiter{ID: r.ID, Due: r.Deadline, Kept: p.kept(r.Class)}
	if w.Due == 0 {
		w.Due = r.Arrival + p.Models[r.Class].SLO
	}
	w.Due -= w.Kept
	return w
}

// cancel forgets a request and returns its class, or -1.
func (p *base) cancel(r *dispatch.Request) int32 {
	if r.Class >= 0 && int(r.Class) < len(p.Lines) {
		due := dispatch.Time(0)
		if r.Deadline != 0 {
			due = r.Deadline - p.kept(r.Class)
		}
		if p.withdraw(r.Class, r.ID, due) {
			return r.Class
		}
	}
	for c := range p.Lines {
		if p.withdraw(int32(c), r.ID, 0) {
			return int32(c)
		}
	}
	return -1
}

func (p *base) withdraw(class int32, id dispatch.RequestID, due dispatch.Time) bool {
	i := p.Lines[class].find(id, due)
	if i < 0 {
		return false
	}
	p.Lines[class].remove(i)
	p.Waiting--
	return true
}

// dropFirst gives up the first k requests of a line.
func (p *base) dropFirst(class int32, k int) {
	q := &p.Lines[class]
	for i := range k {
		p.giveUp(class, *q.at(i))
	}
	q.skip(k)
	p.Waiting -= k
}

// dropLate gives up the requests that no executor could serve in time.
func (p *base) dropLate(class int32) {
	q, k := &p.Lines[class], 0
	for k < q.N && q.due(k) < p.Now+p.Models[class].Least {
		k++
	}
	p.dropFirst(class, k)
}

// expire gives up the requests of a line that are late and sets when the next will be.
func (p *base) expire(line int32) {
	p.dropLate(line)
	if q := &p.Lines[line]; q.N > 0 {
		p.Wakes.Set(line, q.due(0)-p.Models[line].Least+1)
	} else {
		p.Wakes.Drop(line)
	}
}

// offer is the chance that an executor offers to a model.
func (p *base) offer(class int32, id dispatch.ExecutorID) offer {
	e := &p.Fleet.Execs[id]
	return offer{now: p.Now, free: e.Free, delay: p.Delay, table: p.Models[class].Tables[e.Group], late: p.Slips.beyond(p.Now, id)}
}

// planned is the chance that an idle executor would offer to a model now.
func (p *base) planned(class int32) offer {
	return offer{now: p.Now, free: p.Now, delay: p.Delay, table: p.Models[class].Plan}
}

// start sends the first b requests of a line to an open executor.
func (p *base) start(class int32, id dispatch.ExecutorID, b int, out []dispatch.Action) []dispatch.Action {
	q := &p.Lines[class]
	from := len(p.batch)
	for i := range b {
		p.batch = append(p.batch, q.at(i).ID)
	}
	q.skip(b)
	p.Waiting -= b
	return p.launch(class, id, from, out)
}

// launch sends what is in the batch arena from that place on.
func (p *base) launch(class int32, id dispatch.ExecutorID, from int, out []dispatch.Action) []dispatch.Action {
	s, b := p.offer(class, id), len(p.batch)-from
	a := dispatch.Action{Act: dispatch.Start, Executor: id, Group: p.Fleet.Execs[id].Group, Class: class, Batch: p.batch[from:len(p.batch):len(p.batch)]}
	if p.Delay != (dispatch.Delay{}) {
		a.At = s.begin(b)
	}
	for int(id) >= len(p.Runs) {
		p.Runs = append(p.Runs, [2]run{})
	}
	r := run{Class: class, Size: int32(b), Begin: s.begin(b)}
	if p.Fleet.Execs[id].Pending == 0 {
		p.Runs[id] = [2]run{r}
	} else {
		p.Runs[id][1] = r
	}
	p.Fleet.Send(id, s.begin(b)+s.table.of(b))
	return append(out, a)
}

// lead is how far ahead of its end an executor may be sent the next batch: the
// longest delay of a target batch.
func (p *base) lead() dispatch.Time {
	lead := dispatch.Time(0)
	for i := range p.Models {
		lead = max(lead, p.Delay.Of(p.Models[i].Target))
	}
	return lead
}

// arm sets a timer unless one that fires no later is set already.
func (p *base) arm(wake dispatch.Time, out []dispatch.Action) []dispatch.Action {
	wake = min(wake, p.Fleet.Wake())
	if wake == never || p.Armed <= wake {
		return out
	}
	p.Armed = max(wake, p.Now)
	p.Asked = p.Armed
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.Armed})
}

// line is a ring of waiting requests, the one due first at the head; of
// requests due together, the first to come stands first. With one SLO for all
// that is the order of arrival. It grows and never shrinks.
type line struct {
	Buf  []waiter // length is a power of two
	Head int
	N    int
}

// waiter is what a cluster keeps of a request.
type waiter struct {
	ID   dispatch.RequestID
	Due  dispatch.Time // deadline less what is kept
	Kept dispatch.Time
}

func (q *line) at(i int) *waiter { return &q.Buf[(q.Head+i)&(len(q.Buf)-1)] }

// due is when the i-th request must be done.
func (q *line) due(i int) dispatch.Time { return q.Buf[(q.Head+i)&(len(q.Buf)-1)].Due }

// insert puts the request behind all that are due no later.
func (q *line) insert(w waiter) {
	if q.N == len(q.Buf) {
		q.grow()
	}
	i := q.N
	q.N++
	for ; i > 0 && q.due(i-1) > w.Due; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = w
}

func (q *line) grow() {
	buf := make([]waiter, max(16, 2*len(q.Buf)))
	for i := range q.N {
		buf[i] = *q.at(i)
	}
	q.Buf, q.Head = buf, 0
}

// skip forgets the first k requests.
func (q *line) skip(k int) {
	q.Head = (q.Head + k) & (len(q.Buf) - 1)
	q.N -= k
}

// find reports where the request stands, or -1. A due time other than zero is
// searched first.
func (q *line) find(id dispatch.RequestID, due dispatch.Time) int {
	if due != 0 {
		for i := q.first(due); i < q.N && q.due(i) == due; i++ {
			if q.at(i).ID == id {
				return i
			}
		}
	}
	for i := range q.N {
		if q.at(i).ID == id {
			return i
		}
	}
	return -1
}

// first is the place of the first request due at that time or later.
func (q *line) first(due dispatch.Time) int {
	low, high := 0, q.N
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
	if i < q.N/2 {
		for ; i > 0; i-- {
			*q.at(i) = *q.at(i - 1)
		}
		q.skip(1)
		return
	}
	for ; i < q.N-1; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	q.N--
}

// describe draws what all cluster policies share: one line for the executors and
// one for each model that waits or has a known rate.
func (p *base) describe(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d waiting, %d of %d executors open\n", name, p.Waiting, p.Fleet.Opens, p.Fleet.Up)
	for i := range p.Models {
		q, m := &p.Lines[i], &p.Models[i]
		if q.N == 0 && m.Meter.Rate == 0 {
			continue
		}
		fmt.Fprintf(&b, "  class %d: %d waiting, target batch %d", i, q.N, m.Target)
		if q.N > 0 {
			fmt.Fprintf(&b, ", first due by %v", q.due(0))
		}
		if m.Meter.Rate > 0 {
			fmt.Fprintf(&b, ", %.4g requests/s", m.Meter.Rate)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
