package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/dispatcher/server"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/metrics"
	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// faults are what goes wrong: chances of engines, and how often what else happens.
type faults struct {
	load, slow, crash, panics, wrong, poison float64
	hang, nan                                float64
	every                                    time.Duration // between troubles of processes and connections; 0 is never
}

func (f *faults) none() bool { return *f == faults{} }

// heardEpoch is an owner's epoch, and when an executor received it.
type heardEpoch struct {
	epoch uint64
	at    time.Time
}

// world is one fleet.
type world struct {
	seed        uint64
	began       time.Time
	trouble     time.Duration // how long faults last
	far         time.Duration // the longest way of a message without trouble
	duration    time.Duration // of a batch
	load        time.Duration // of an engine
	faults      faults
	deletes     bool
	shared      bool   // dispatchers apart from gateways
	claims      bool   // they own services without an order from control
	clocks      bool   // are wrong
	outages     bool   // of control
	onlyStreams bool   // see drawStreams
	hurried     bool   // modules change as fast as that goes, and dispatchers take few of a gateway at a time
	disk        string // where hosts have theirs; empty where versions are no files
	fills       bool   // these are full at times
	shelf       shelf
	control     process         // without connections
	temporal    *temporalServer // that runs workflows; nil where the driver does what they would
	services    []*service
	history     history
	epochs      map[string][]heardEpoch // of owners that have reached an executor; under the history's lock

	gateways    []*gatewayProcess
	dispatchers []*dispatcherProcess
	hosts       []*hostProcess

	life     context.Context
	cancel   context.CancelFunc
	ends     sync.WaitGroup
	controls sync.WaitGroup

	mu      sync.Mutex
	dialled map[string]int         // connections of an executor to an address
	joined  map[*server.Server]int // gateways
	calm    bool                   // faults have ceased
	whole   bool                   // and what they had left behind is repaired
	away    time.Time              // until then control is
	next    int                    // request
	epoch   uint64                 // the highest that an owner was given
}

// troubled reports whether faults may still happen.
func (w *world) troubled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.calm
}

// pause sleeps, and reports whether the world goes on.
func (w *world) pause(d time.Duration) bool { return osutil.SleepTimer(w.life, d) == nil }

// gatewayProcess is a gateway that may be killed and started again.
type gatewayProcess struct {
	process
	*gateway.Gateway
	life  int
	ready bool // it serves what the fleet does
	*counts
	metrics *metrics.Metrics
	unlink  context.CancelFunc
}

// dispatcherProcess is a dispatcher that may be killed and started again.
type dispatcherProcess struct {
	process
	*server.Server
	queues *dispatcher.Dispatcher
}

// hostProcess is a host with its executors.
type hostProcess struct {
	process
	*executors.Host
	life      context.Context
	cancel    context.CancelFunc
	fullUntil time.Time // its disk
}

func newProcess(kind string, i int) process {
	return process{name: fmt.Sprint(kind, i)}
}

// startGateway starts one, which is ready once services have been installed.
func (w *world) startGateway(g *gatewayProcess) {
	w.mu.Lock()
	g.life++
	life := g.life
	w.mu.Unlock()
	counts := &counts{}
	collected := metrics.New()
	observer := gateway.Tee(w.history.observer(life, g, counts), collected.Observer())
	fresh := gateway.New(gateway.Options{Dispatched: w.shared, Grace: time.Second, Record: -1, Observer: observer})
	ctx, cancel := context.WithCancel(w.life)
	w.mu.Lock()
	g.Gateway, g.counts, g.metrics, g.unlink, g.ready = fresh, counts, collected, cancel, false
	w.mu.Unlock()
	g.mu.Lock()
	g.up = true
	g.mu.Unlock()
	w.history.note("%s starts", g.name)
	for _, d := range w.dispatchers {
		w.ends.Go(func() { w.follow(ctx, g, fresh, d) })
	}
	w.ends.Go(func() {
		if w.temporal != nil {
			w.temporal.joinGateway(ctx, g, fresh)
		} else {
			for _, s := range w.services {
				s.enter(ctx, fresh)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		g.ready = g.life == life && g.alive()
	})
}

// follow keeps a gateway joined to a dispatcher.
func (w *world) follow(ctx context.Context, g *gatewayProcess, own *gateway.Gateway, d *dispatcherProcess) {
	r := random(w.seed, "follow"+g.name+d.name)
	for ctx.Err() == nil {
		if near, far := w.conn(&g.process, &d.process); near != nil {
			w.mu.Lock()
			s := d.Server
			w.mu.Unlock()
			unlink := context.AfterFunc(ctx, func() { _ = near.Close() })
			w.ends.Go(func() { w.serve(d, s, far) })
			_ = own.ServeDispatcher(near, g.name, "", 0)
			unlink()
		}
		_ = osutil.SleepTimer(ctx, between(r, 20*time.Millisecond, 80*time.Millisecond))
	}
}

// serve has a dispatcher serve a gateway. Once no gateway is joined to it any more it holds
// nothing of any.
func (w *world) serve(d *dispatcherProcess, own *server.Server, c net.Conn) {
	w.mu.Lock()
	w.joined[own]++
	w.mu.Unlock()
	if err := own.Serve(c); errors.Is(err, server.ErrTooMany) {
		w.history.violate("a gateway has too much at %s: %v", d.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.joined[own]--; w.joined[own] > 0 {
		return
	}
	delete(w.joined, own)
	w.holdsNothing(d.name, own, "although no gateway is joined to it")
}

// killGateway ends one without a word. Its requests are lost to their callers.
func (w *world) killGateway(g *gatewayProcess) {
	w.mu.Lock()
	g.ready = false
	life, own, unlink := g.life, g.Gateway, g.unlink
	w.mu.Unlock()
	w.history.note("%s is killed", g.name)
	w.history.mu.Lock()
	for _, r := range w.history.requests {
		if r.gateway == g && r.life == life && r.over.IsZero() {
			r.lost, r.over = true, time.Now()
		}
	}
	w.history.mu.Unlock()
	g.down()
	unlink()
	_ = own.Close()
}

// fewModules is above what gateways of hurried worlds have requests of at a time: two services
// of four modules each, and those of the generations before.
const fewModules = 20

// apart makes timers of which no two go at one instant: those of modules beside each other
// would, and in which order is the Go scheduler's.
func apart() func(func()) dispatcher.Timer {
	var made atomic.Int64
	return func(f func()) dispatcher.Timer {
		t := time.AfterFunc(time.Hour, f)
		t.Stop()
		return lateTimer{t, time.Duration(made.Add(1) % 1000)}
	}
}

type lateTimer struct {
	*time.Timer
	by time.Duration
}

func (t lateTimer) Reset(d time.Duration) bool { return t.Timer.Reset(d + t.by) }

func (w *world) startDispatcher(d *dispatcherProcess) {
	began := time.Now()
	queues := dispatcher.New(dispatcher.Options{
		Now: func() time.Duration { return time.Since(began) + 1 }, Margin: gateway.DefaultMargin,
		Span: gateway.DefaultSpan, FunctionSpan: gateway.DefaultFunctionSpan, Record: -1, NewTimer: apart(),
	})
	var fresh *server.Server
	options := server.Options{Name: d.name, Clock: d.clock, Random: random(w.seed, fmt.Sprint("epochs of ", d.name, began.Sub(w.began))).Uint32}
	if w.hurried {
		options.Modules = fewModules
	}
	options.Orphaned = func(service string, epoch uint64) {
		w.history.note("%s claims %s by epoch %d", d.name, service, fresh.OwnAfter(service, epoch))
	}
	fresh = server.New(queues, options)
	if w.claims {
		fresh.Claim()
	}
	w.mu.Lock()
	d.queues, d.Server = queues, fresh
	w.mu.Unlock()
	d.mu.Lock()
	d.up = true
	d.mu.Unlock()
	w.history.note("%s starts", d.name)
}

func (w *world) startHost(h *hostProcess) {
	host := &executors.Host{
		Name: h.name, Engines: []executors.Engine{engine{w}}, ForceEngine: "sum", DrainTimeout: 3 * time.Second,
		Retry:  executors.Backoff{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond},
		Notice: func(string) {},
	}
	host.Content = w.cache(h)
	host.Dial = func(ctx context.Context, address string) (attach.Stream, error) { return w.dial(ctx, h, address) }
	life, cancel := context.WithCancel(w.life)
	w.mu.Lock()
	h.Host, h.life, h.cancel = host, life, cancel
	w.mu.Unlock()
	h.mu.Lock()
	h.up = true
	h.mu.Unlock()
	w.history.note("%s starts", h.name)
	if w.temporal != nil {
		w.temporal.joinHost(h, host, life)
		return
	}
	host.Gateways.Set(w.addresses())
}

func (w *world) killHost(h *hostProcess) {
	w.history.note("%s is killed", h.name)
	h.down()
	h.cancel()
}

func (w *world) addresses() (all []string) {
	for _, g := range w.gateways {
		all = append(all, g.name)
	}
	for _, d := range w.dispatchers {
		all = append(all, d.name)
	}
	return all
}

// named is where an executor's context has its name.
type named struct{}

// dial attaches an executor.
func (w *world) dial(ctx context.Context, h *hostProcess, address string) (attach.Stream, error) {
	name := ctx.Value(named{}).(string)
	w.mu.Lock()
	w.dialled[name+address]++
	n := w.dialled[name+address]
	w.mu.Unlock()
	w.pause(between(random(w.seed, fmt.Sprint("dial ", name, address, n)), 1, 50*time.Microsecond))
	var to *process
	var accept func(attach.Stream) error
	w.mu.Lock()
	for _, g := range w.gateways {
		if g.name == address {
			to, accept = &g.process, g.Gateway.Attach
		}
	}
	for _, d := range w.dispatchers {
		if d.name == address {
			to, accept = &d.process, d.Server.Attach
		}
	}
	w.mu.Unlock()
	if to == nil { // the host has received no gateway yet
		return nil, errors.New("nobody has that address")
	}
	near, far := w.stream(&h.process, name, n, to)
	if near == nil {
		return nil, errors.New("nobody answers")
	}
	w.ends.Go(func() { _ = accept(far) })
	context.AfterFunc(ctx, func() { _ = near.Close() }) // as Host.Dial has it
	return near, nil
}

// ask is one call by a gateway that is ready; it reports whether there was one.
func (w *world) ask(r *rand.Rand, s *service, leaves time.Duration, hurried time.Duration, probe bool) bool {
	w.mu.Lock()
	var ready []*gatewayProcess
	for _, g := range w.gateways {
		if g.ready {
			ready = append(ready, g)
		}
	}
	if len(ready) == 0 {
		w.mu.Unlock()
		return false
	}
	g := ready[r.IntN(len(ready))]
	w.next++
	own := g.Gateway
	q := &request{id: w.next, service: s, value: float32(r.IntN(1000)), gateway: g, life: g.life, start: time.Now(), budget: s.slo, whole: w.whole, probe: probe}
	w.mu.Unlock()
	if d, ok := own.Deployment(s.name); ok {
		q.generation = d.Generation
	} else if !probe {
		q.generation = 0
	}
	q.generation = s.later(q.generation, s.served())
	ctx, cancel := context.WithCancel(w.life)
	defer cancel()
	if hurried > 0 {
		q.budget = min(q.budget, hurried)
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, hurried)
		defer stop()
	}
	if leaves > 0 {
		defer time.AfterFunc(leaves, func() {
			w.history.mu.Lock()
			q.cancelled = true
			w.history.mu.Unlock()
			cancel()
		}).Stop()
	}
	switch {
	case s.films && !probe:
		q.Frame = s.frame(r, g.name)
	case s.films && s.kinds:
		q.Frame.Kind = filmedOfKinds[0].Kind
	}
	w.history.mu.Lock()
	w.history.requests[q.id] = q
	w.history.mu.Unlock()
	response, err := own.Infer(ctx, &wire.InferRequest{ID: fmt.Sprint(q.id), Pipeline: s.name, Frame: q.Frame, Textual: func(string) bool { return true }, Inputs: []wire.NamedTensor{
		{Name: "x", Tensor: wire.FromFloat32([]float32{q.value, float32(q.id)}, 2)},
	}})
	var typed *wire.Error
	if err != nil && !errors.As(err, &typed) {
		w.history.violate("request %d ended with an error of no type: %v", q.id, err)
		return true
	}
	w.history.answered(q, response, typed)
	return true
}
