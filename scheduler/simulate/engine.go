package simulate

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/flow"
)

// engine plays events in the order of time. Everything in it is addressed by
// index and used again, so that a run of any length takes the memory of what is
// under way at once, and allocates nothing once it has grown to that.
type engine struct {
	now      Time
	queue    dispatch.Agenda
	loads    []loadState
	stations []station
	devices  []device
	flights  []flight // two for each lane; the number is its key in the queue
	changes  []change // losses and returns of devices, in the order of time
	scaled   *scaled  // nil where the number of devices is fixed
	sizes    []Size   // of it so far

	items        []item
	freeItems    []int32
	requests     []*request
	freeRequests []int32
	ready        []flow.Item // of launch
	launched     []flow.Item // of launch
	dropped      []droppedItem
	failing      bool                  // failDropped is at work
	admission    *admission.Controller // nil where every request is taken in
	finished     []int32               // items of the batch that ends

	delay    DrawnDelay
	planned  dispatch.Delay // what dispatchers take delay to be
	delays   *rand.Rand     // for delay; nil where it is always what is planned
	noise    float64
	spread   Spread
	dropping Dropping
	random   *rand.Rand // for noise
	begin    Time       // requests before it are not counted
	end      Time       // no request comes from then on
	giveUp   int64      // misses after which the run stops; 0 means never
	test     test
	observer Observer
	seen     []Request // of the batch that is reported to the observer
	stop     func() bool

	keys             keys
	lanes, executors int32 // so far
	events           int64
	seq              uint64
	misses           int64
	fault            error
}

// keys are the numbers of things in the event queue. Of what happens together,
// devices that become free come first, then changes of devices, then requests,
// and timers last, so that a batch that is due takes in who comes just then.
type keys struct {
	change, load, timer int32
}

// loadState is a load with its pipeline made ready to run.
type loadState struct {
	graph    *flow.Graph
	nodes    []node // as in graph
	name     string
	slo      Time
	number   int // of admission control
	arrivals arrivals.Stream
	next     Time    // when the next request comes
	sizes    []int32 // of requests, in the order in which they come; nil where they have none
	fan      *rand.Rand
	tally    tally
	verdict  Interval // of the last look of a test

	turns *frameTurns // nil where no node keeps state between the frames of streams
}

// station is a policy with its executors.
type station struct {
	dispatch.Station
	lanes   []lane     // by ExecutorID
	tables  [][][]Time // durations by class, group, and size of the batch less one
	longest [][][]Time // the same of the longest durations, where they vary
	elastic []elastic  // by group, where groups may grow
}

// newStation makes the next station.
func (e *engine) newStation(p made) *station {
	s := station{Station: dispatch.Station{Policy: p.Policy, Driver: driver{e, int32(len(e.stations))}}}
	if p.recorder != nil {
		s.Record = p.recorder.Step
	}
	e.stations = append(e.stations, s)
	return &e.stations[len(e.stations)-1]
}

// driver carries out what the policy of a station decides.
type driver struct {
	*engine
	station int32
}

// lane is one batch that an executor may run at a time.
type lane struct {
	index       int32 // over all stations
	device      int32
	user        int   // of the arbiter of the device
	executor    int32 // over all stations; several lanes may be one executor's
	group       int32
	concurrency int32 // batches that the executor may run side by side
}

// itemState states where an item is.
type itemState uint8

const (
	unused itemState = iota
	held             // until the frame before has been answered; see frameTurns
	waiting
	sent
	dropped // by a policy; its request still has to be ended
	done
)

// item is one run of one node, for one request or a part of it.
type item struct {
	arrival   Time // of the request
	ready     Time
	node      int32
	load      int32
	size      int32 // of its request; 1 where it has none
	request   int32 // -1 where the pipeline has one node: the item is the request
	frame     int32
	next      int32 // item of the same request, or -1
	turn      uint32
	state     itemState
	abandoned bool // its request is over
	retried   bool // it lost its executor once
	measured  bool
	stream    int32 // that its request is a frame of; 0 where there are none
	number    int64 // of that frame; 0 where no module keeps state
}

// droppedItem is an item that a policy has dropped.
type droppedItem struct {
	item   int32
	reason dispatch.Reason
}

// askEvery is after how many events a run asks whether to stop; a power of two.
const askEvery = 1 << 14

// mostAtOnce is how many events one instant may have: more means that a policy
// sets timers for now for ever.
const mostAtOnce = 10_000_000

func (e *engine) run() {
	at, since := Time(-1), int64(0)
	for e.fault == nil {
		next := e.queue.Next()
		if next > e.test.at {
			e.look()
			continue
		}
		if next == never || e.giveUp > 0 && e.misses > e.giveUp {
			return
		}
		if next != at {
			at, since = next, e.events
		} else if e.events-since > mostAtOnce {
			e.fault = fmt.Errorf("simulate: the clock stands still at %v: a policy sets its timer to now again and again", at)
		}
		if e.events&(askEvery-1) == 0 && e.stop != nil && e.stop() {
			e.fault = ErrStopped
			return
		}
		e.now = next
		e.events++
		e.handle(e.queue.Top())
	}
}

func (e *engine) handle(key int32) {
	switch {
	case key < e.keys.change:
		e.flightEvent(key)
	case key == e.keys.change:
		e.queue.Drop(key)
		e.changeDevices()
	case key < e.keys.timer:
		e.arrive(key - e.keys.load)
	default:
		e.queue.Drop(key)
		e.step(key-e.keys.timer, &dispatch.Event{Kind: dispatch.Timer})
	}
}

// arrive takes the next request of a pipeline.
func (e *engine) arrive(at int32) {
	a := &e.loads[at]
	arrival, size := a.next, int32(1)
	if a.sizes != nil {
		size = a.sizes[(a.arrivals.Drawn()-1)%len(a.sizes)]
	}
	stream := int32(a.arrivals.From())
	e.schedule(at)
	measured := arrival >= e.begin
	if measured {
		a.tally.arrive(arrival, stream)
	}
	if !e.admit(at, arrival) {
		e.miss(a, measured, dispatch.Full)
		return
	}
	number := a.comes(stream)
	if !a.graph.Single() {
		e.open(at, arrival, stream, number, measured)
		return
	}
	i := e.newItem()
	it := &e.items[i]
	it.arrival, it.node, it.load, it.size, it.request, it.measured, it.stream, it.number = arrival, 0, at, size, -1, measured, stream, number
	e.enter(i, stream, number, false)
}

// schedule sets when the next request of a pipeline comes.
func (e *engine) schedule(at int32) {
	a := &e.loads[at]
	a.next = a.arrivals.Next()
	if a.next < e.end {
		e.queue.Set(e.keys.load+at, a.next)
	} else {
		e.queue.Drop(e.keys.load + at)
	}
}

// submit hands an item to its station; more means that another of its request follows.
func (e *engine) submit(i int32, more bool) {
	ev := dispatch.Event{Kind: dispatch.Arrive, More: more}
	e.describe(i, &ev.Request) // first: a processor is slow to read at once what it has written in parts
	it := &e.items[i]
	it.ready, it.state = e.now, waiting
	n := &e.loads[it.load].nodes[it.node]
	if it.measured {
		n.tally.items++
	}
	e.countWaiting(it, 1)
	e.step(n.station, &ev)
}

// describe fills in an item's request as a policy sees it.
func (e *engine) describe(i int32, r *dispatch.Request) {
	it := &e.items[i]
	a := &e.loads[it.load]
	n := &a.nodes[it.node]
	n.SetTimes(r, it.arrival, it.arrival+a.slo, n.kept)
	r.ID, r.Class = dispatch.RequestID(it.turn)<<32|dispatch.RequestID(uint32(i)), n.class
	if a.sizes != nil {
		r.Size = it.size
	}
}

// step reports an event to a policy and carries its actions out.
func (e *engine) step(at int32, ev *dispatch.Event) {
	e.stations[at].Step(e.now, ev)
	if !e.failing && len(e.dropped) > 0 {
		e.failDropped()
	}
	if e.stations[at].elastic != nil {
		e.addWhereNoneIdles(at)
	}
}

// Start implements dispatch.Driver.
func (d driver) Start(_ Time, a *dispatch.Action) { d.start(d.station, a) }

// SetTimer implements dispatch.Driver.
func (d driver) SetTimer(now Time, a *dispatch.Action) {
	d.queue.Set(d.keys.timer+d.station, max(now, a.At))
}

// Drop implements dispatch.Driver.
func (d driver) Drop(_ Time, a *dispatch.Action) {
	i := d.find(a.Request)
	if i < 0 || d.items[i].state != waiting {
		d.violation(d.station, "drops request %d, which does not wait", a.Request)
		return
	}
	d.items[i].state = dropped
	d.countWaiting(&d.items[i], -1)
	d.dropped = append(d.dropped, droppedItem{i, a.Reason})
}

// Arbitrate implements dispatch.Driver.
func (d driver) Arbitrate(now Time, a *dispatch.Action) dispatch.Event {
	l := &d.stations[d.station].lanes[a.Executor]
	return d.devices[l.device].arbiter.Decide(l.user, now, a)
}

// failDropped ends the requests whose items policies have dropped, in their order, as a
// dispatcher does. That takes other items out of other queues, where more may be dropped: those
// come next.
func (e *engine) failDropped() {
	e.failing = true
	slices.Reverse(e.dropped)
	for len(e.dropped) > 0 {
		last := len(e.dropped) - 1
		f := e.dropped[last]
		e.dropped = e.dropped[:last]
		e.fail(f.item, f.reason)
		slices.Reverse(e.dropped[last:])
	}
	e.failing = false
}

// fail ends an item that was dropped, and its request.
func (e *engine) fail(i int32, reason dispatch.Reason) {
	it := &e.items[i]
	a := &e.loads[it.load]
	if it.measured {
		a.nodes[it.node].tally.fail(reason)
	}
	switch {
	case it.abandoned:
		e.freeItem(i)
	case it.request < 0:
		e.miss(a, it.measured, reason)
		e.leave(it.load, it.arrival, false)
		load, stream, number := it.load, it.stream, it.number
		e.freeItem(i)
		e.gone(load, stream, number)
	default:
		e.miss(a, it.measured, reason)
		it.state = done
		e.close(it.request)
	}
}

// miss counts a request that gets no answer.
func (e *engine) miss(a *loadState, measured bool, reason dispatch.Reason) {
	if measured {
		a.tally.fail(reason)
		e.misses++
	}
}

// answer counts a request that is answered now and has taken so much of devices.
func (e *engine) answer(a *loadState, arrival, spent Time, stream int32, measured bool) {
	switch {
	case !measured:
	case a.tally.answer(arrival, e.now-arrival, a.slo, stream):
		a.tally.useful += spent
	default:
		e.misses++
	}
}

// violation notes that a policy broke its promise; the run ends with it.
func (e *engine) violation(at int32, format string, args ...any) {
	if e.fault == nil {
		e.fault = fmt.Errorf("simulate: at %v policy %s %s", e.now, e.stations[at].Policy.Name(), fmt.Sprintf(format, args...))
	}
}

func (e *engine) newItem() int32 {
	i := int32(len(e.items))
	if n := len(e.freeItems); n > 0 {
		i, e.freeItems = e.freeItems[n-1], e.freeItems[:n-1]
	} else {
		e.items = append(e.items, item{})
	}
	it := &e.items[i]
	*it = item{turn: it.turn + 1, size: 1, next: -1}
	return i
}

func (e *engine) freeItem(i int32) {
	e.items[i].state = unused
	e.freeItems = append(e.freeItems, i)
}

// find is the item of that name, or -1.
func (e *engine) find(id dispatch.RequestID) int32 {
	i := int32(uint32(id))
	if i < 0 || int(i) >= len(e.items) || e.items[i].turn != uint32(id>>32) || e.items[i].state == unused {
		return -1
	}
	return i
}
