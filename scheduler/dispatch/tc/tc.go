package tc

import (
	"math"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

// VoidFor is how long the promise of a plan stays void after a request was late, or after
// more came than it is for.
const VoidFor = 5 * time.Second

// DefaultMaxQueue bounds the waiting requests where Options do not.
const DefaultMaxQueue = 1024

// A promise is for the rate of its plan, and void while clearly more come: so many times as
// many, and so many a second beside, since one request may raise the measured rate by a fifth
// of one a second.
const (
	beyondShare = 1.1
	beyondRate  = 0.5
)

// never is the instant that does not come.
const never = dispatch.Never

// needUnreported is the ReportedNeed of a group that has returned no Need yet.
const needUnreported = dispatch.Time(math.MinInt64)

// Options configures the tc policy of one module.
type Options struct {
	Groups []Group // at least one

	// MaxQueue is the most requests that may wait; one more is dropped as
	// Full. 0 means DefaultMaxQueue.
	MaxQueue int

	// Early states when an idle executor may start what waits before its batch is
	// full or due, and before its virtual arrival.
	Early EarlyStart

	// Below, where requests have taken no device time before they come, is what the plan
	// gives the modules below beyond what their Deadline keeps for those. Where a queue
	// stands, one that cannot leave that much before its deadline would be late below, most
	// likely, and is given up, as long as those behind it fill a batch (see free_starts.go).
	Below time.Duration

	// Rate is the expected requests per second, for which promises are; 0 if unknown. It is
	// measured from then on.
	Rate float64

	// Shared means that the driver arbitrates the devices that groups with a Deadline share:
	// it answers Ask and takes note of Need (see Arbiter). Without it the batches of such
	// groups never start before they are due.
	Shared bool
}

// EarlyStart states when policy tc starts batches before they are full or due.
type EarlyStart uint8

const (
	// EarlyNever has none: requests that come before their virtual arrival are held until
	// then, and batches wait until they are full or due.
	EarlyNever EarlyStart = iota

	// EarlyWithinPromise has them where the plan's proof for every request bears it, that
	// is where the executor is free again when the schedule can next need it (see
	// early.go). It shortens waits greatly while devices have time to spare.
	// Where batches have lately taken longer than their profile, a group holds back
	// for as long. A promise takes for granted that requests come as declared and
	// batches take as long as profiled; once a request has been late all the same, or
	// clearly more come than Options.Rate, it is void for VoidFor, and batches start as
	// with EarlyAlways.
	EarlyWithinPromise

	// EarlyAlways has an idle executor take what waits, for plans that promise
	// nothing to the single request (random arrivals, fan-out). Batches are held
	// back only where a full batch serves more (see free_starts.go). Whether a request can be in time is judged by what batches have
	// lately taken, not by their profile.
	EarlyAlways
)

// Group describes one group of a plan: executors of one configuration.
type Group struct {
	Batch    int           // requests in a full batch; at least 1
	Window   time.Duration // longest wait of a request for its batch to fill
	Duration time.Duration // of a full batch, as profiled

	// Period is the planned time between two batches of the group; it decides
	// how the stream is shared between groups. 0 means Window.
	Period time.Duration

	// Deadline, on a device that the group shares, is the longest from the end of
	// the window to the end of the batch. 0 on devices of its own.
	Deadline time.Duration

	// Items, where groups divide bursts, is how many of each the group takes, in batches that
	// wait for Window: for those who come in the same instant. Period is the time between two
	// bursts then. 0 where groups share a stream by due dates.
	Items int

	// AnyPhase, of a group that takes all items of a burst, is that these come at any time of a
	// Period: a batch holds what has come when an executor is free, and no schedule needs that
	// executor later (package scheduler/plan/demand, Bursts.Collected).
	AnyPhase bool

	// Spread, where bursts are collected over time, is how long before the release of its
	// batch an item may come. It is part of Window.
	Spread time.Duration

	// Durations, where given, are profiled durations by batch size:
	// Durations[n-1] for n requests. Sizes beyond its end take Duration.
	Durations []time.Duration
}

// tc is the batch-aware dispatch policy: see New.
type tc struct {
	Groups  []group
	Execs   []executor // by ExecutorID
	Orphans fifo       // waiting while no executor is up anywhere
	Early   fifo       // come before their virtual arrival; see admitEarly
	Max     int
	Starts  EarlyStart
	Void    dispatch.Time  // until when the promise is
	Trial   dispatch.Time  // until when being late does not void it again
	Meter   dispatch.Meter // of arrivals
	Asks    bool           // the driver answers Ask

	Declared float64 // requests per second that the promise is for; 0 if unknown
	Below    dispatch.Time
	Full     int     // requests of the largest batch
	Standing float64 // exponential mean of whether more than that waited, over below

	// One question is open at a time. The groups after the one that asked wait for the
	// answer, so that they see its result.
	Question dispatch.Action // Ask; none where Act is 0
	Answer   dispatch.Event  // Granted or Refused, while the group that asked is handled; none where Kind is 0
	Cursor   int             // the group to go on with
	Again    bool            // a group could not ask because a question was open
	Together bool            // several requests have come in this instant that are decided on together

	Now     dispatch.Time
	Armed   dispatch.Time        // the timer that the driver holds; never when none
	Waiting int                  // requests in all queues
	Missed  bool                 // a request was dropped as Late since voidIfBroken was called last
	batch   []dispatch.RequestID `json:"-"`
	spare   []dispatch.Request   `json:"-"`
	Bursts  bool                 // groups divide bursts
	Burst   dispatch.Time        // virtual arrival of the last one
	Given   []dispatch.Request   // given up, and not settled yet: in this step, or before in this instant where More follows
	frees   []dispatch.Time      `json:"-"`
}

type group struct {
	Batch        int
	Window       dispatch.Time
	Period       dispatch.Time
	Durations    []dispatch.Time // by size; at least one, not falling
	Deadline     dispatch.Time
	Spread       dispatch.Time
	Items        int  // of each burst
	AnyPhase     bool // of the period between them
	Part         int  // of the last burst, that it got
	Shared       bool // has a deadline, and its device is not its own
	Needs        dispatch.Reservation
	ReportedNeed dispatch.Time // the last Need: when the device is next needed

	Queue   fifo
	Closed  int           // leading requests of queue whose batch is full or due
	Release dispatch.Time // of the open batch, or of the next; see New
	Hold    dispatch.Time // when the first closed batch may start, on a shared device
	Again   dispatch.Time // when to ask for an early start again; never when only an event can change the answer
	Ups     int           // executors that are up
	Since   dispatch.Time // when requests began to wait, or a batch last left some behind
	Delay   dispatch.Time // smoothed time that batches took beyond their profile
	Pace    dispatch.Pace
	Idle    []dispatch.ExecutorID
}

type executor struct {
	Up, Busy bool
	Alone    bool // on its device
	Group    int32
	Begun    dispatch.Time
	Profiled dispatch.Time // duration of its batch by the profile
}

// expected is when its batch should be done, by the profile.
func (e *executor) expected() dispatch.Time { return e.Begun + e.Profiled }

// New builds the throughput-cost dispatch of the Harpagon paper, section
// III-B, as earliest-deadline-first cutting: batches of the groups' sizes are
// collected from the stream of the whole module, so that each fills at the
// stream's rate and not at the rate of one machine.
//
// Every group follows a schedule: its batch number k is released k periods after
// its first and is due one Window later. The next request goes to the batch that
// is due first among those that have been released and have room. A batch closes
// when it is full, when it is due, or when waiting longer would miss a deadline,
// and starts on an executor of its group as soon as one is idle (with early
// starts, often before). Where executors have time to spare it is due one Window after
// its first request, which may be later. When no batch is open and every group
// may release one, all schedules begin again. Requests that an executor finds
// waiting beyond one closed batch ride along as far as there is room.
//
// Package scheduler/plan/demand proves that this keeps the promise of a sound plan for
// every request.
//
// A request whose deadline can no longer be met is dropped as Late before it
// reaches a device. A Deadline of zero means none. When the last executor of a
// group goes, its requests move to the other groups; when no executor is left
// they wait for one until their deadline.
//
// Groups with impossible values are mended to the nearest possible ones: a
// batch below 1 counts as 1, negative times as 0.
func New(o Options) dispatch.Policy {
	p := &tc{Max: o.MaxQueue, Starts: o.Early, Asks: o.Shared, Declared: o.Rate, Below: max(0, o.Below), Armed: never, Meter: dispatch.NewMeter(o.Rate)}
	if p.Max <= 0 {
		p.Max = DefaultMaxQueue
	}
	for _, g := range o.Groups {
		p.Groups = append(p.Groups, newGroup(g))
		p.Bursts = p.Bursts || g.Items > 0
		p.Full = max(p.Full, g.Batch)
	}
	return p
}

// Name is "tc".
func (p *tc) Name() string { return "tc" }

// Len is the number of requests that wait.
func (p *tc) Len() int { return p.Waiting }

// Step takes one event and appends the actions that follow from it. What comes together is
// decided together: the first of several items would start a batch of its own.
func (p *tc) Step(now dispatch.Time, ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	p.updateQueue(now)
	p.Now = max(p.Now, now)
	p.batch = p.batch[:0]
	before := len(out)
	if p.Armed <= p.Now {
		p.Armed = never
	}
	out = p.update(ev, out)
	if ev.More {
		p.Together = true
		return out
	}
	open := p.awaitsAnswer()
	if p.Answer.Kind == 0 {
		p.Cursor, p.Again = 0, p.Again && open
	}
	p.admitEarly()
	p.giveUp(&p.Orphans)
	for p.Cursor < len(p.Groups) {
		out = p.run(int32(p.Cursor), out)
		if p.awaitsAnswer() && !open {
			out = p.settle(p.Cursor, out)
			p.noteDrops(out[before:])
			return append(out, p.Question)
		}
		out = p.report(int32(p.Cursor), p.release(p.Answer, out))
		p.Answer = dispatch.Event{}
		if p.Cursor++; p.Cursor == len(p.Groups) && p.Again && !open {
			p.Cursor, p.Again = 0, false
		}
	}
	out = p.settle(len(p.Groups), out)
	p.Together = false
	p.noteDrops(out[before:])
	p.voidIfBroken()
	return p.arm(p.wake(), out)
}

// update takes in the event, before any group is looked at.
func (p *tc) update(ev dispatch.Event, out []dispatch.Action) []dispatch.Action {
	switch ev.Kind {
	case dispatch.Arrive:
		return p.arrive(ev.Request, out)
	case dispatch.Cancel:
		p.cancel(ev.Request.ID)
	case dispatch.ExecutorUp:
		p.executorUp(ev.Executor, ev.Group, ev.Alone)
	case dispatch.ExecutorFree:
		p.executorFree(ev.Executor, ev.Took)
	case dispatch.ExecutorGone:
		p.executorGone(ev.Executor)
	case dispatch.DeviceAlone:
		p.deviceAlone(ev.Executor, ev.Alone)
	case dispatch.Granted, dispatch.Refused:
		return p.answered(ev, out)
	}
	return out
}

// wake is when something is to be done without another event.
func (p *tc) wake() dispatch.Time {
	wake, free, stolen := p.earlyWake(), p.free(), false
	if p.Orphans.N > 0 {
		wake = min(wake, p.Orphans.lateAt(p.shortest()))
	}
	for i := range p.Groups {
		stolen = stolen || free && p.maySteal(&p.Groups[i])
	}
	for i := range p.Groups {
		if g := &p.Groups[i]; g.Queue.N > 0 {
			wake = min(wake, g.wake(p.Now, p.least(g), free, stolen))
		} else if len(g.Idle) > 0 {
			wake = min(wake, g.Again)
		}
	}
	return wake
}

// free reports whether idle executors take what waits without regard to schedules.
func (p *tc) free() bool {
	return p.Starts == EarlyAlways || p.Starts == EarlyWithinPromise && p.Now < p.Void
}

// arm sets a timer unless one that fires no later is set already.
func (p *tc) arm(wake dispatch.Time, out []dispatch.Action) []dispatch.Action {
	if wake == never || p.Armed <= wake {
		return out
	}
	p.Armed = max(wake, p.Now)
	return append(out, dispatch.Action{Act: dispatch.SetTimer, At: p.Armed})
}

func (p *tc) arrive(r dispatch.Request, out []dispatch.Action) []dispatch.Action {
	switch {
	case r.Deadline != 0 && late(&r, p.Now, p.shortest()):
		p.Given = append(p.Given, r)
		return out
	case p.Waiting >= p.Max || len(p.Groups) == 0:
		return append(out, dispatch.Action{Act: dispatch.Drop, Request: r.ID, Reason: dispatch.Full})
	}
	p.Waiting++
	p.Meter.Hit(p.Now)
	if r.Arrival > p.Now {
		p.waitEarly(r)
		return out
	}
	p.assign(r)
	return out
}

// admitEarly lets in those whose virtual arrival has come. Until then they are
// held, or start early: the proof of a plan is about batches that are cut from
// the stream in the order and at the time of virtual arrivals, and the batches of
// the module above come home as bursts, not always in order.
func (p *tc) admitEarly() {
	p.giveUp(&p.Early)
	for p.Early.N > 0 && p.Early.at(0).Arrival <= p.Now {
		p.assign(p.Early.pop())
	}
}

// giveUp gives up what is late in a queue that belongs to no group.
func (p *tc) giveUp(q *fifo) {
	if q.N > 0 {
		p.Given = q.takeLate(p.Now, p.shortest(), &p.Waiting, nil, p.Given)
	}
}

// earlyWake is when the next of them is let in, or late.
func (p *tc) earlyWake() dispatch.Time {
	if p.Early.N == 0 {
		return never
	}
	return min(p.Early.at(0).Arrival, p.Early.lateAt(p.shortest()))
}

// assign gives the request to the batch that is due first.
func (p *tc) assign(r dispatch.Request) {
	i := p.choose(r.Arrival)
	if i < 0 {
		p.Orphans.insert(r)
		return
	}
	p.Groups[i].add(r, p.Now)
}

// choose finds the group whose batch is to take a request of that virtual
// arrival, or -1 when no group has an executor. Batches that have been released
// compete by due date; when there is none, the group whose next release is
// nearest opens early.
func (p *tc) choose(arrival dispatch.Time) int {
	if p.Bursts {
		return p.divide(arrival)
	}
	p.restartSchedule(arrival)
	best, early := -1, -1
	var due dispatch.Time
	for i := range p.Groups {
		g := &p.Groups[i]
		if g.Ups == 0 {
			continue
		}
		if d, ok := g.offer(arrival); ok && (best < 0 || d < due) {
			best, due = i, d
		}
		if early < 0 || g.Release < p.Groups[early].Release {
			early = i
		}
	}
	if best < 0 {
		return early
	}
	return best
}

// restartSchedule lets all groups release a batch together, now, when none holds an open
// batch and each may release one: the schedule begins again.
func (p *tc) restartSchedule(arrival dispatch.Time) {
	if !p.fresh(arrival, -1) {
		return
	}
	for i := range p.Groups {
		p.Groups[i].Release = arrival
	}
}

// fresh reports whether the schedule would begin again with a request that comes
// then; what is open in group but is left out.
func (p *tc) fresh(arrival dispatch.Time, but int32) bool {
	for i := range p.Groups {
		g := &p.Groups[i]
		if g.Ups > 0 && (g.open() && int32(i) != but || g.Release > arrival) {
			return false
		}
	}
	return true
}

func (p *tc) cancel(id dispatch.RequestID) {
	if p.Orphans.remove(id) >= 0 || p.Early.remove(id) >= 0 {
		p.Waiting--
		return
	}
	p.Given = slices.DeleteFunc(p.Given, func(r dispatch.Request) bool { return r.ID == id }) // late, and not decided on yet
	for i := range p.Groups {
		if p.Groups[i].remove(id) {
			p.Waiting--
			return
		}
	}
}

func (p *tc) executorUp(id dispatch.ExecutorID, at int32, alone bool) {
	if id < 0 || int(at) >= len(p.Groups) || at < 0 {
		return
	}
	for int(id) >= len(p.Execs) {
		p.Execs = append(p.Execs, executor{})
	}
	if p.Execs[id].Up {
		p.executorGone(id)
	}
	p.Execs[id] = executor{Up: true, Alone: alone, Group: at}
	g := &p.Groups[at]
	g.Ups++
	g.Idle = append(g.Idle, id)
	g.ReportedNeed = needUnreported
	p.share(at)
	p.adopt(&p.Orphans)
}

func (p *tc) executorFree(id dispatch.ExecutorID, took dispatch.Time) {
	if id < 0 || int(id) >= len(p.Execs) || !p.Execs[id].Up || !p.Execs[id].Busy {
		return
	}
	e := &p.Execs[id]
	e.Busy = false
	g := &p.Groups[e.Group]
	g.learn(p.Now - e.expected())
	g.Pace.Learn(p.Now, e.Profiled, took, p.Now-e.Begun)
	g.Idle = append(g.Idle, id)
}

func (p *tc) executorGone(id dispatch.ExecutorID) {
	if id < 0 || int(id) >= len(p.Execs) || !p.Execs[id].Up {
		return
	}
	at := p.Execs[id].Group
	g := &p.Groups[at]
	p.Execs[id] = executor{}
	p.share(at)
	if p.awaitsAnswer() && p.Question.Executor == id {
		p.Question = dispatch.Action{}
	}
	g.Ups--
	g.Idle = without(g.Idle, id)
	if g.Ups == 0 {
		g.Closed = 0
		p.adopt(&g.Queue)
	}
}

// adopt assigns everything in q again; what finds no group becomes an orphan.
func (p *tc) adopt(q *fifo) {
	p.spare = q.drain(p.spare[:0])
	for _, r := range p.spare {
		p.assign(r)
	}
}

// run gives up what is late in a group and starts what may start.
func (p *tc) run(at int32, out []dispatch.Action) []dispatch.Action {
	g := &p.Groups[at]
	if g.Queue.N > 0 {
		p.Given = g.Queue.takeLate(p.Now, p.least(g), &p.Waiting, &g.Closed, p.Given)
	}
	g.close(p.Now, p.free())
	g.Again = never
	for len(g.Idle) > 0 {
		from := len(p.batch)
		started, due := false, dispatch.Time(0)
		switch {
		case p.free():
			started = p.takeFree(at)
		case g.Closed > 0 && p.mayStart(g):
			if g.Shared {
				due = g.Hold + g.Deadline
			}
			if p.takeDue(g); len(p.batch) == from {
				continue // all that was due turned out late
			}
			started = true
		default:
			started = p.takeEarly(at)
		}
		if !started {
			break
		}
		g.Since = p.Now
		out = p.launch(at, from, out)
		out[len(out)-1].Due = due
	}
	return out
}

// launch starts what is in p.batch from that place on, on an idle executor.
func (p *tc) launch(at int32, from int, out []dispatch.Action) []dispatch.Action {
	g := &p.Groups[at]
	id := g.Idle[0]
	g.Idle = g.Idle[:copy(g.Idle, g.Idle[1:])]
	e := &p.Execs[id]
	e.Busy, e.Begun, e.Profiled = true, p.Now, g.Durations[len(p.batch)-from-1]
	return append(out, dispatch.Action{Act: dispatch.Start, Executor: id, Group: at, Batch: p.batch[from:len(p.batch):len(p.batch)]})
}

// takeDue moves the oldest requests of the group, up to one batch, to p.batch, and gives
// up what would be late in it: a batch is smaller where its first request needs that.
func (p *tc) takeDue(g *group) {
	drop, size := p.cut(g, g.Queue.N, p.planned)
	for range drop {
		p.Given = append(p.Given, p.pop(g))
	}
	if size > 0 {
		p.take(g, size, p.Now+g.Durations[size-1])
	}
	g.Hold += g.Period // the next one's, if there is one
}

// least is the time that a batch of one needs in the group.
func (p *tc) least(g *group) dispatch.Time {
	if p.free() {
		return g.Pace.Of(p.Now, g.Durations[0])
	}
	return g.Durations[0]
}

// shortest is the least time that any request needs on a device.
func (p *tc) shortest() dispatch.Time {
	least := never
	for i := range p.Groups {
		least = min(least, p.least(&p.Groups[i]))
	}
	if least == never {
		return 0
	}
	return least
}
