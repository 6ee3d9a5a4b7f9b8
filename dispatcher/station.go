package dispatcher

import (
	"slices"
	"sync"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// station drives the dispatch policy of one module: events in, actions out. It
// outlives generations for as long as its module stays the same.
type station struct {
	dispatcher *Dispatcher
	service    string
	module     string
	identity   string // of the module; see placement.Identity

	mu      sync.Mutex
	drive   dispatch.Station // the policy
	groups  []groupShape
	windows bool // the policy closes batches by the windows of groups
	slots   []slot
	free    []uint32
	lanes   []lane        // by ExecutorID
	newest  dispatch.Time // virtual arrival of those that have cost no engine, until now at the most
	tail    dispatch.Time // the longest time lately from an executor's Soon until the batch was back
	up      int           // lanes registered with the policy, or about to be once their engines are back
	downAt  dispatch.Time
	moves   int64 // of Dispatcher.moves, as last reported to the policy
	timer   Timer
	fx      []effect // of steps since the lock was taken
	stats   moduleStats

	slowest slowRuns

	recorder *recording.Recorder // of the policy's steps; nil where nothing is recorded

	cluster *residents // of a part of a cluster; nil for a module

	elsewhere bool  // another dispatcher decides; see link.go
	link      *Link // to that one; nil while there is none

	// Of a function; see calls.go.
	calls   int      // that may run at once; 0 for a module
	apps    []string // of the policy, by class
	running int      // calls, of all generations
	stopped bool     // no more calls are made
}

// slot holds an item that is registered with the policy. A RequestID is the slot's index with
// its turn above, so that one is not used again while it is in flight.
type slot struct {
	item *Item
	turn uint32
}

// groupShape is what a station needs of a group to distinguish queue from wait.
type groupShape struct {
	batch  int
	window dispatch.Time
}

// effect is what is left to do after the station's lock has been released: start a
// batch, or give an item up.
type effect struct {
	batch *Batch
	item  *Item
	drop  Drop
}

func (it *Item) station() *station { return it.Request.Generation.stations[it.Index] }

// arrive queues an item; more means that another follows in this instant, with which the policy
// decides on both.
func (s *station) arrive(now dispatch.Time, it *Item, more bool) {
	if it.Request.Over() || it.state >= ended {
		return
	}
	g := it.Request.Generation
	first := it.Attempts == 0 && it.refusals == 0
	known := s.classify(it)
	if first {
		it.Ready = now
		it.stats.Arrive(now)
		if g.largest > 0 {
			it.stats.Query(now, int(it.Size), g.largest)
		}
	}
	switch {
	case s.stopped:
		s.drop(it, Stopping)
		return
	case !known:
		s.drop(it, Unserved)
		return
	}
	it.state = queued
	it.accountWait(1)
	it.id = s.put(it)
	r := it.request()
	if !it.CostEngine() {
		s.newest = max(s.newest, min(now, r.Arrival))
	}
	if s.elsewhere {
		s.link.arrive(s, it, more, now)
		return
	}
	s.step(now, dispatch.Event{Kind: dispatch.Arrive, Request: r, More: more})
}

// step reports an event to the policy and carries its decisions out as far as
// the lock allows.
func (s *station) step(now dispatch.Time, ev dispatch.Event) {
	s.neighbours(now)
	s.decide(now, ev)
	if s.calls > 0 {
		s.offerLanes(now)
	}
}

// decide is step without a look at who shares the devices.
func (s *station) decide(now dispatch.Time, ev dispatch.Event) {
	if !s.elsewhere {
		s.drive.Step(now, &ev)
	}
}

// driver carries out what the policy of a station decides. The station's lock is held.
type driver struct{ *station }

// Start implements dispatch.Driver.
func (d driver) Start(now dispatch.Time, a *dispatch.Action) {
	if b := d.start(now, a); d.calls > 0 {
		d.startCalls(b)
	} else {
		d.fx = append(d.fx, effect{batch: b})
	}
}

// SetTimer implements dispatch.Driver. A timer that lapsed is reported even when it comes late.
func (d driver) SetTimer(now dispatch.Time, a *dispatch.Action) { d.timer.Reset(a.At - now) }

// Drop implements dispatch.Driver.
func (d driver) Drop(now dispatch.Time, a *dispatch.Action) {
	it := d.take(a.Request)
	if it == nil {
		return
	}
	it.accountWait(-1)
	drop := d.why(it, a.Reason)
	it.stats.Drop(now, drop.Cause())
	d.drop(it, drop)
}

// Arbitrate implements dispatch.Driver. An executor that is just being removed is granted nothing.
func (d driver) Arbitrate(now dispatch.Time, a *dispatch.Action) dispatch.Event {
	e := d.lanes[a.Executor].exec
	switch {
	case e != nil:
		return e.device.arbitrate(now, a, e.place, asker{d.station, a.Executor})
	case a.Act == dispatch.Ask:
		return dispatch.Event{Kind: dispatch.Refused, Executor: a.Executor, At: dispatch.Never}
	}
	return dispatch.Event{}
}

// start makes the batch of an action.
func (s *station) start(now dispatch.Time, a *dispatch.Action) *Batch {
	l := &s.lanes[a.Executor]
	b := &Batch{station: s, lane: int32(a.Executor), group: s.lanes[a.Executor].group, At: now}
	b.Items = b.few[:0]
	if len(a.Batch) > len(b.few) {
		b.Items = make([]*Item, 0, len(a.Batch))
	}
	first, last := s.gather(b, a.Batch)
	for _, it := range b.Items {
		b.note(it)
	}
	if a.Due != 0 {
		b.Due = a.Due
	}
	b.Parts = len(b.gateways)
	b.begin(s.closed(now, a, first, last), b.Size())
	b.accountStart()
	if s.calls == 0 {
		s.stick(b, l.exec)
		l.batch = b
		l.exec.enter(b)
	}
	return b
}

// gather takes the items of a batch from their slots, and returns when the first and the
// last of them came. Nothing has used them for long: so the memory of all is touched first, and
// the processor waits for it once instead of for each.
func (s *station) gather(b *Batch, ids []dispatch.RequestID) (first, last dispatch.Time) {
	first = dispatch.Never
	for _, id := range ids {
		it := s.take(id)
		b.hold(it)
		first, last = min(first, it.Ready), max(last, it.Ready)
	}
	return first, last
}

// Size is what the batch's items report of it: rows where they are queries.
func (b *Batch) Size() int {
	if b.Items[0].Request.Generation.largest > 0 {
		return b.Rows
	}
	return len(b.Items)
}

// begin notes that the items have started in a batch of that size, which was complete
// at that time.
func (b *Batch) begin(closed dispatch.Time, size int) {
	b.Closed = closed
	for _, it := range b.Items {
		it.state, it.Began, it.Batch = sent, b.At, int32(size)
		it.Wait = max(0, min(closed, b.At)-it.Ready)
		it.Queue = b.At - it.Ready - it.Wait
	}
}

// stick notes when the batch, which has just begun, takes far longer than its profile. The
// station's lock is held.
func (s *station) stick(b *Batch, e *Executor) {
	g, index := b.Items[0].Request.Generation, b.Items[0].Index
	_, node := g.placeOf(index)
	runs := s.slowest.Of(RunKey{Of: g.Deployment.Age(), Node: node, Hardware: e.Hardware, Concurrency: e.concurrency},
		g.Deployment.Pipeline.Module(g.Nodes[index].Module))
	if took := runs.Stuck(b.Rows); took > 0 {
		b.stuck, b.misses = b.At+took, dispatch.Never
		for _, it := range b.Items {
			if deadline := it.Request.Deadline; deadline != 0 {
				b.misses = min(b.misses, max(deadline, b.stuck))
			}
		}
	}
}

// Stuck is when the batch takes far longer than its profile; 0 where that is not known.
func (b *Batch) Stuck() dispatch.Time { return b.stuck }

// add puts an item into the batch that is being made.
func (b *Batch) add(it *Item) {
	b.hold(it)
	b.note(it)
}

func (b *Batch) hold(it *Item) {
	b.Items = append(b.Items, it)
	b.Rows += int(it.Size)
}

// note makes the batch due with the item, and known to its gateway.
func (b *Batch) note(it *Item) {
	b.Apart = b.Apart || it.CostEngine() // here, since an executor that is lost changes its items at once
	r := it.Request
	n := &r.Generation.Nodes[it.Index]
	due := n.Due(r.Arrival, r.Deadline, n.Keep.Least)
	if b.gateways == nil || due < b.Due {
		b.Due = due
	}
	if b.gateways == nil {
		b.gateways = b.one[:0]
	}
	if n := len(b.gateways); n == 0 || b.gateways[n-1] != r.Gateway && !slices.Contains(b.gateways, r.Gateway) {
		b.gateways = append(b.gateways, r.Gateway)
	}
}

// closed is when a batch that starts now was complete: what came before it is
// wait, and what comes after it is queue. Policies without windows collect
// until they start a batch, except while it had no executor.
func (s *station) closed(now dispatch.Time, a *dispatch.Action, first, last dispatch.Time) dispatch.Time {
	switch {
	case !s.windows:
		return now - max(0, s.lanes[a.Executor].free-last)
	case len(a.Batch) >= s.groups[a.Group].batch:
		return last
	}
	return min(now, max(last, first+s.groups[a.Group].window))
}

func (s *station) tick() { s.handle(dispatch.Event{Kind: dispatch.Timer}) }

// handle reports an event that nothing else comes with.
func (s *station) handle(ev dispatch.Event) {
	s.mu.Lock()
	if !s.stopped {
		s.step(s.dispatcher.Now(), ev)
	}
	s.unlock()
}

// unlock releases the lock and does what steps have left to do.
func (s *station) unlock() {
	var room [4]effect
	fx := append(room[:0], s.fx...)
	clear(s.fx)
	s.fx = s.fx[:0]
	s.mu.Unlock()
	for _, e := range fx {
		if e.batch == nil {
			e.item.Request.Gateway.Drop(e.item, e.drop)
			continue
		}
		e.batch.start()
	}
}

// start notifies the gateways that hold the items of the batch.
func (b *Batch) start() {
	if len(b.gateways) == 1 {
		b.gateways[0].Start(b, b.Items, 0)
		return
	}
	for part, g := range b.gateways {
		var items []*Item
		for _, it := range b.Items {
			if it.Request.Gateway == g {
				items = append(items, it)
			}
		}
		g.Start(b, items, part)
	}
}

// Gateways are those that hold items of the batch, in the order of its parts.
func (b *Batch) Gateways() []Gateway { return b.gateways }

// why puts the reason of a drop into the words of gateways.
func (s *station) why(it *Item, reason dispatch.Reason) Drop {
	switch {
	case reason == dispatch.Full:
		return Full
	case it.Attempts > 0:
		return Lost
	case s.up == 0:
		return NoExecutor
	case s.calls > 0 && s.running >= s.calls:
		return CallsFull
	}
	return Late
}

func (s *station) put(it *Item) dispatch.RequestID {
	var i uint32
	if n := len(s.free); n > 0 {
		i, s.free = s.free[n-1], s.free[:n-1]
	} else {
		i = uint32(len(s.slots))
		s.slots = append(s.slots, slot{})
	}
	s.slots[i].item = it
	s.slots[i].turn++
	return dispatch.RequestID(s.slots[i].turn)<<32 | dispatch.RequestID(i)
}

// take removes an item from its slot; nil when it is not there any more.
func (s *station) take(id dispatch.RequestID) *Item {
	i := uint32(id)
	if int(i) >= len(s.slots) || s.slots[i].turn != uint32(id>>32) {
		return nil
	}
	it := s.slots[i].item
	if it != nil {
		s.slots[i].item = nil
		s.free = append(s.free, i)
	}
	return it
}

// waiting lists the queued items in the order of their virtual arrival.
func (s *station) waiting() []*Item {
	var all []*Item
	for i := range s.slots {
		if s.slots[i].item != nil {
			all = append(all, s.slots[i].item)
		}
	}
	slices.SortStableFunc(all, func(a, b *Item) int {
		return int(a.request().Arrival - b.request().Arrival)
	})
	return all
}

// queued is how many items wait. The station's lock is held.
func (s *station) queued() int {
	if s.elsewhere {
		return len(s.slots) - len(s.free)
	}
	return s.drive.Policy.Len()
}

// measure is what was seen of a module of a generation, whose station this is.
func (s *station) measure(now dispatch.Time, g *Generation, index int) autoscale.ModuleMeasures {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := autoscale.ModuleMeasures{Name: g.Nodes[index].Module, Policy: s.drive.Policy.Name()}
	if s.cluster != nil {
		s.cluster.measure(s, now, g.key(index), &m)
		return m
	}
	m.Waiting = s.queued()
	s.stats.Measure(now, &m)
	return m
}

// Load is what a dispatcher holds of a module right now.
type Load struct {
	Module  string
	Waiting int    // items registered with its policy
	Held    int    // items that it could still start
	Calls   int    // of a function, under way
	Policy  string // drawn, for logs and golden transcripts
}

// Loads are those of a generation's modules, in their order.
func (d *Dispatcher) Loads(g *Generation) []Load {
	var all []Load
	for _, s := range g.stations {
		s.mu.Lock()
		all = append(all, Load{Module: s.module, Waiting: s.queued(), Held: len(s.slots) - len(s.free), Calls: s.running, Policy: s.drive.Policy.Describe()})
		s.mu.Unlock()
	}
	return all
}
