package dispatcher

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
)

// Options configures a Dispatcher.
type Options struct {
	// Now is the clock; it never returns 0.
	Now func() dispatch.Time

	// NewTimer makes a timer that goes by that clock, calls f, and is not set yet; nil
	// makes those of package time.
	NewTimer func(f func()) Timer

	// MaxQueue bounds the waiting items of one module; 0 means
	// tc.DefaultMaxQueue. MaxCalls bounds those of a function.
	MaxQueue int
	MaxCalls int

	// Patient keeps the window of a batch to its end even while a device is
	// idle, under policy tc. By default a batch starts early where that breaks
	// no promise of the plan: its device is free again before any schedule can
	// need it.
	Patient bool

	// Margin is kept before every deadline by policies that hold batches back
	// for as long as deadlines allow, since timers, threads and the network to the executors are
	// not punctual; at most a tenth of the time that a request has at the module. Batches of
	// functions leave FunctionMargin before the plan's timeouts.
	Margin         time.Duration
	FunctionMargin time.Duration

	// Span is the time that Measure looks back on, FunctionSpan for functions.
	Span         time.Duration
	FunctionSpan time.Duration

	// Policies are dispatch policies that a program brings beside those of this project.
	Policies factory.Policies

	// Elsewhere leaves what the items of modules do to other dispatchers, which
	// links lead to (see Link). Functions are decided here all the same.
	Elsewhere bool

	// Record is how many bytes of the latest events and decisions are kept for every
	// module; negative means none.
	Record int
}

// Timer calls a function once the time that it was set to is over, as time.Timer does.
type Timer interface {
	Reset(d time.Duration) bool
	Stop() bool
}

// Dispatcher decides for any number of services. Make it with New; all methods may
// be called from many goroutines at once.
type Dispatcher struct {
	options Options
	moves   atomic.Int64   // executors that have come to a device or left it
	started atomic.Uint64  // batches
	calls   sync.WaitGroup // of functions

	mu        sync.Mutex
	services  map[string]*service
	executors map[string]*Executor // by name
	devices   map[string]*device   // by host and name; never forgotten
	links     []*Link              // to dispatchers elsewhere
	seen      map[string]uint64    // the highest epoch of an owner elsewhere, by service
	numbered  int                  // devices that have been numbered
	accounts  int                  // that have been made
	asks      asks                 // for places of streams

	doors doors
}

// service is what the dispatcher keeps of one that it serves.
type service struct {
	current  *Generation
	older    []*Generation       // that are not forgotten, the newest first
	account  *account            // nil until a generation is guarded
	stations map[string]*station // of the current generation by module
}

// generations are all that may have requests, the newest first.
func (v *service) generations() []*Generation {
	return append([]*Generation{v.current}, v.older...)
}

// supersede puts a generation in charge, and keeps the one before for its requests.
func (v *service) supersede(g *Generation, stations map[string]*station) {
	if v.current != nil && !v.current.forgotten {
		v.older = slices.Insert(v.older, 0, v.current)
	}
	v.current, v.stations = g, stations
}

// New makes a dispatcher that serves nothing yet.
func New(o Options) *Dispatcher {
	if o.NewTimer == nil {
		o.NewTimer = newTimer
	}
	return &Dispatcher{
		options:   o,
		services:  make(map[string]*service),
		executors: make(map[string]*Executor),
		devices:   make(map[string]*device),
		seen:      make(map[string]uint64),
	}
}

func newTimer(f func()) Timer {
	t := time.AfterFunc(time.Hour, f)
	t.Stop()
	return t
}

// Now is the time on the dispatcher's clock.
func (d *Dispatcher) Now() dispatch.Time { return d.options.Now() }

// Arrive queues an item, unless its request is over.
func (d *Dispatcher) Arrive(it *Item) { d.ArriveAll(d.Now(), []*Item{it}) }

// ArriveAll is Arrive of several that came then, a moment ago. It costs little more than that
// of one where they are of one station.
func (d *Dispatcher) ArriveAll(now dispatch.Time, all []*Item) { deliver(dispatch.Arrive, now, all) }

// deliver passes arrivals, or cancellations, to the stations of the items, in order.
func deliver(what dispatch.Kind, now dispatch.Time, all []*Item) {
	for len(all) > 0 {
		s := all[0].station()
		s.mu.Lock()
		for len(all) > 0 && all[0].station() == s {
			if what == dispatch.Arrive {
				s.arrive(now, all[0], all[0].More)
			} else {
				s.cancel(all[0])
			}
			all = all[1:]
		}
		s.unlock()
	}
}

// maxRefusals bounds how often an item is queued again that no engine has seen. When another
// dispatcher takes over, an executor learns it a few messages before a gateway does.
const maxRefusals = 1000

// Requeue queues an item again that has come back without an answer, because its engine or
// executor was lost: once, for the next may well be lost to the same request. One that no
// engine has seen is untouched, and may come back more often. It reports whether it has taken
// the item. That is safe, since engines compute and do nothing else.
func (d *Dispatcher) Requeue(it *Item, untouched bool) bool {
	if !untouched && it.Attempts > 0 || it.refusals >= maxRefusals {
		return false
	}
	s := it.station()
	s.mu.Lock()
	if untouched {
		it.refusals++
	} else {
		it.Attempts++
	}
	it.state = fresh
	s.arrive(d.Now(), it, false)
	s.unlock()
	return true
}

// Cancel takes a waiting item back. What is in a batch already runs on, and its answer is
// discarded.
func (d *Dispatcher) Cancel(it *Item) { d.CancelAll([]*Item{it}) }

// CancelAll is Cancel of several, which costs little more than that of one where they are
// of one station. Item.Settled reports the result for each.
func (d *Dispatcher) CancelAll(all []*Item) { deliver(dispatch.Cancel, 0, all) }

// cancel is Cancel; the station's lock is held.
func (s *station) cancel(it *Item) {
	it.Settled = it.state == settled
	if it.state != queued {
		return
	}
	now := s.dispatcher.Now()
	s.take(it.id)
	it.state = ended
	it.accountWait(-1)
	if s.elsewhere {
		s.link.cancel(s, it)
	}
	s.step(now, dispatch.Event{Kind: dispatch.Cancel, Request: it.request()})
}

// Done notes that a batch has come back and lets its executor go on. The batch is
// one that Executor.Take has returned, or a call. It returns the time of it.
func (d *Dispatcher) Done(b *Batch, r Report) dispatch.Time {
	now := b.station.returned(b, r)
	b.Executor.device.unstick()
	b.Executor.device.offer()
	return now
}

// Unavailable reports whether the module of a generation has no executor, and since when.
func (d *Dispatcher) Unavailable(g *Generation, index int) (since dispatch.Time, unavailable bool) {
	s := g.stations[index]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.downAt, s.up == 0
}

// Missing is how many modules of a service have had no executor for a time.
func (d *Dispatcher) Missing(service string, lasting time.Duration) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missing(service, lasting)
}

// missing is Missing; Dispatcher.mu is held.
func (d *Dispatcher) missing(service string, lasting time.Duration) (n int) {
	v := d.services[service]
	if v == nil {
		return 0
	}
	now := d.Now()
	for _, s := range v.stations {
		s.mu.Lock()
		if s.up == 0 && now-s.downAt >= lasting {
			n++
		}
		s.mu.Unlock()
	}
	return n
}

// Measure reports what was seen lately of the modules of a generation.
func (d *Dispatcher) Measure(g *Generation) []autoscale.ModuleMeasures {
	now := d.Now()
	all := make([]autoscale.ModuleMeasures, 0, len(g.stations))
	for i, s := range g.stations {
		all = append(all, s.measure(now, g, i))
	}
	return all
}

// Close gives up the items that wait for calls and waits for those under way; no
// more are made.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	var callers []*station
	for _, v := range d.services {
		for _, s := range v.stations {
			if s.calls > 0 {
				callers = append(callers, s)
			}
		}
	}
	d.mu.Unlock()
	for _, s := range callers {
		s.close()
	}
	d.calls.Wait()
}

// newRecorder records a station's steps, where that is wanted.
func (d *Dispatcher) newRecorder() *recording.Recorder {
	if d.options.Record < 0 {
		return nil
	}
	return &recording.Recorder{Limit: d.options.Record}
}

// Recording holds the latest events and decisions of the stations of all modules that are
// served now.
func (d *Dispatcher) Recording() []recording.Station {
	d.mu.Lock()
	var all []*station
	for _, v := range d.services {
		all = slices.AppendSeq(all, maps.Values(v.stations))
	}
	d.mu.Unlock()
	slices.SortFunc(all, func(a, b *station) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.module, b.module))
	})
	recorded := make([]recording.Station, len(all))
	for i, s := range all {
		s.mu.Lock()
		parts := s.recorder.Parts()
		s.mu.Unlock()
		recorded[i] = recording.Station{Name: s.service + "/" + s.module, Parts: parts}
	}
	return recorded
}
