package gateway

import (
	"context"
	"crypto/cipher"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/executors/serverless"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/rollout"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// Gateway serves pipelines. Make it with New; all methods may be called from
// many goroutines at once.
type Gateway struct {
	options Options
	epoch   time.Time
	seal    cipher.AEAD // of state that callers take along
	name    string      // that no other gateway has
	queue   *dispatcher.Dispatcher
	forms   maphash.Seed // see formOf

	pipelines atomic.Pointer[map[string]*pipeline] // replaced as a whole, under mu
	clusters  map[string]*cluster                  // whose pipelines are among them; under mu

	failures failures
	tenants  Tenants
	timers   sync.Pool // of *time.Timer that are stopped; see wait

	life     context.Context // of calls
	end      context.CancelFunc
	stopping atomic.Bool

	mu        sync.Mutex
	closed    bool
	executors map[string]*executor     // attached, by name
	removed   map[string]placement.Age // since when what serves no more must have been made, by service
	changed   chan struct{}            // closed, and replaced, when executors change
}

// pipeline is what the gateway keeps of one that it serves.
type pipeline struct {
	name     string
	within   string // the cluster that it is in; empty for a service of its own
	current  atomic.Pointer[deployed]
	accepted atomic.Int64 // requests under way
	gone     atomic.Bool  // it accepts none any more
	stats    dispatcher.ServiceStats
	shares   Service // of what it accepts
	streams  streams
	shown    shown
	canary   atomic.Pointer[canary] // another generation that gets a share of its requests; nil for none

	modules map[string]*Module // of the current graph; under Gateway.mu
	old     []*deployed        // that may still have requests; under Gateway.mu
}

// deployed is a graph with what serves it.
type deployed struct {
	*Graph
	function *function // nil where executors of this fleet serve
}

// cluster is one that the gateway serves: pipelines that requests name, and parts with a
// station each, which are services to dispatchers.
type cluster struct {
	deployment placement.Deployment
	members    []*pipeline
	gone       []*pipeline // that are served no more and may still have requests
}

// partOf is a part that was compiled, with its pipelines.
type partOf struct {
	whole   *dispatcher.Generation
	members []*deployed
}

// New makes a gateway that serves nothing yet.
func New(o Options) *Gateway {
	g := &Gateway{
		options:   o.withDefaults(),
		forms:     maphash.MakeSeed(),
		epoch:     time.Now(),
		name:      strconv.FormatUint(rand.Uint64(), 36) + "-",
		clusters:  make(map[string]*cluster),
		executors: make(map[string]*executor),
		removed:   make(map[string]placement.Age),
		seal:      newSeal(o.StateKey),
		changed:   make(chan struct{}),
	}
	g.queue = dispatcher.New(g.options.dispatching(g.now))
	g.life, g.end = context.WithCancel(context.Background())
	g.pipelines.Store(&map[string]*pipeline{})
	return g
}

// now is the time on the gateway's clock; never 0, which means none.
func (g *Gateway) now() dispatch.Time { return time.Since(g.epoch) + 1 }

func (g *Gateway) pipeline(name string) *pipeline { return (*g.pipelines.Load())[name] }

// find is the service that a request names. A request of a function may name an
// application, as FUNCTION/APPLICATION.
func (g *Gateway) find(name string) (p *pipeline, application string) {
	if p := g.pipeline(name); p != nil {
		return p, ""
	}
	function, application, _ := strings.Cut(name, "/")
	if p = g.pipeline(function); p == nil || p.current.Load().function == nil {
		return nil, ""
	}
	return p, application
}

// Services lists what is served, in order of name; the pipelines of a cluster are not
// services of their own.
func (g *Gateway) Services() []string {
	g.mu.Lock()
	all := slices.Collect(maps.Keys(g.clusters))
	g.mu.Unlock()
	for name, p := range *g.pipelines.Load() {
		if _, tried := rollout.Of(name); p.within == "" && !tried {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// ObservedNames maps each name that observers receive to its modules, canaries and deployments with
// requests under way included.
func (g *Gateway) ObservedNames() map[string][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string][]string)
	for name, p := range *g.pipelines.Load() {
		for _, gr := range append([]*deployed{p.current.Load()}, p.old...) {
			for _, n := range gr.Nodes {
				all[name] = append(all[name], n.Name)
			}
			if gr.function != nil {
				for _, a := range gr.function.apps {
					all[a.label] = nil
				}
			}
		}
	}
	for name, c := range g.clusters {
		all[name] = nil
		for _, part := range c.deployment.Cluster.Parts {
			all[part.Name] = nil
		}
	}
	return all
}

// Pipelines lists what requests can name, in order: of a function its applications,
// as FUNCTION/APPLICATION.
func (g *Gateway) Pipelines(context.Context) ([]string, error) {
	var all []string
	for name, p := range *g.pipelines.Load() {
		if _, tried := rollout.Of(name); tried {
			continue
		}
		f := p.current.Load().function
		if f == nil {
			all = append(all, name)
			continue
		}
		for _, a := range f.apps {
			all = append(all, a.label)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Metadata describes a pipeline, a function or an application. A function is not
// ready while its provider cannot be reached. The error has code "not_found" for one that
// is not served.
func (g *Gateway) Metadata(_ context.Context, name string) (*wire.Metadata, error) {
	p, application := g.find(name)
	if p == nil {
		return g.describeCluster(name)
	}
	gr := p.current.Load()
	m := &wire.Metadata{
		Pipeline: name, Generation: gr.Deployment.Generation, SLO: gr.SLO, Rate: gr.Deployment.Pipeline.Rate, Ready: true,
		Overlay: gr.Deployment.Pipeline.Overlay, Inputs: slices.Clone(gr.Inputs), Platform: oip.PlatformOf(placement.EmulatedBy(gr.Deployment.Slots)),
	}
	describeKinds(m, gr.rules)
	if f := gr.function; f != nil {
		if err := f.metadata(m, application); err != nil {
			return nil, err
		}
		return m, nil
	}
	for _, n := range gr.Nodes {
		if _, down := g.queue.Unavailable(gr.Generation, n.Index()); down && m.Ready {
			m.Ready, m.Reason = false, "no executor is attached for module "+n.Name
		}
	}
	for _, o := range gr.Outputs {
		m.Outputs = append(m.Outputs, gr.OutputPort(o))
	}
	return m, nil
}

// describeCluster is Metadata of a cluster.
func (g *Gateway) describeCluster(name string) (*wire.Metadata, error) {
	g.mu.Lock()
	c := g.clusters[name]
	g.mu.Unlock()
	if c == nil {
		return nil, notFound(name)
	}
	m := &wire.Metadata{Pipeline: name, Generation: c.deployment.Generation, Ready: true, Platform: oip.PlatformOf(placement.EmulatedBy(c.deployment.Slots))}
	for _, p := range c.members {
		gr := p.current.Load()
		m.Members = append(m.Members, pipelines.Application{Name: p.name, SLO: gr.SLO, Rate: gr.Deployment.Pipeline.Rate})
		if _, down := g.queue.Unavailable(gr.Generation, 0); down && m.Ready {
			m.Ready, m.Reason = false, "no executor is attached for pipeline "+p.name
		}
	}
	return m, nil
}

// noPipeline reports why a request that names it cannot be served.
func (g *Gateway) noPipeline(name string) error {
	m, err := g.describeCluster(name)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range m.Members {
		names = append(names, p.Name)
	}
	return wire.Errorf(wire.CodeInvalid, "", "%q is a cluster; send requests to one of its pipelines: %s", name, strings.Join(names, ", "))
}

func notFound(name string) *wire.Error {
	return wire.Errorf(wire.CodeNotFound, "", "pipeline %q is not served here; list what is with GET /v2/models", name)
}

// Close refuses new requests and ends all streams and calls. Requests under way
// fail as soon as their executors are gone; call it after the servers in front have
// stopped.
func (g *Gateway) Close() error {
	g.stopping.Store(true)
	g.end()
	g.mu.Lock()
	g.closed = true
	all := slices.Collect(maps.Values(g.executors))
	g.mu.Unlock()
	for _, e := range all {
		_ = e.stream.Close()
	}
	g.queue.Close()
	g.options.Invoker.Close()
	return nil
}

// Defaults of Options.
const (
	DefaultMaxInFlight = 8192
	DefaultGrace       = 500 * time.Millisecond
	DefaultSpan        = 10 * time.Second
	DefaultMargin      = 2 * time.Millisecond
	DefaultRecord      = 1 << 20

	// Of functions, which are called over a network, and often seldom.
	DefaultFunctionMargin = 10 * time.Millisecond
	DefaultFunctionSpan   = 30 * time.Second
)

// Options configures a Gateway. The zero value is good for one process.
type Options struct {
	// MaxInFlight bounds the requests of one pipeline that are under way; one
	// more is refused as overloaded. 0 means DefaultMaxInFlight.
	MaxInFlight int

	// MaxQueue bounds the waiting items of one module. 0 means
	// tc.DefaultMaxQueue.
	MaxQueue int

	// Grace is how long a module may be without any executor before requests
	// are refused at once instead of waiting for one. 0 means DefaultGrace.
	Grace time.Duration

	// Span is the time that Measures looks back on. 0 means DefaultSpan, for
	// functions DefaultFunctionSpan.
	Span time.Duration

	// Policies are dispatch policies that a program brings beside those of this project.
	Policies factory.Policies

	// Patient keeps the window of a batch to its end even while a device is
	// idle, under policy tc. By default a batch starts early where that breaks
	// no promise of the plan: its device is free again before any schedule can
	// need it.
	Patient bool

	// Margin is kept before every deadline by policies that hold batches back
	// for as long as deadlines allow, since timers, threads and the network to the executors are
	// not punctual; at most a tenth of the time that a request has at the module. 0 means
	// DefaultMargin, negative means none. Batches of functions leave so long before the plan's
	// timeouts; there 0 means DefaultFunctionMargin.
	Margin time.Duration

	// Invoker calls the functions of providers; nil makes one.
	Invoker *serverless.Invoker

	// Record is how many bytes of the latest events and decisions are kept for every
	// module, for Recording. 0 means DefaultRecord, some minutes at a hundred requests
	// per second; negative means none.
	Record int

	// Dispatched leaves it to dispatchers elsewhere when and where the items of
	// modules run; see Gateway.ServeDispatcher.
	Dispatched bool
	Bytes      *Bytes // bounds what modules make of requests, and keep of streams; nil bounds nothing

	// StateKey is a secret that gateways share. It seals the state of streams that callers carry from one to
	// another. Without one the key is public, which suits trusted callers only.
	StateKey []byte

	// Observer receives what happens.
	Observer Observer

	functionSpan   time.Duration
	functionMargin time.Duration
}

func (o Options) withDefaults() Options {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	o.functionSpan, o.functionMargin = o.Span, max(0, o.Margin)
	if o.Span <= 0 {
		o.Span, o.functionSpan = DefaultSpan, DefaultFunctionSpan
	}
	if o.Record == 0 {
		o.Record = DefaultRecord
	}
	if o.Margin == 0 {
		o.Margin, o.functionMargin = DefaultMargin, DefaultFunctionMargin
	}
	if o.Invoker == nil {
		o.Invoker = serverless.NewInvoker(serverless.InvokerOptions{})
	}
	return o
}

// dispatching is what of the options is the dispatcher's.
func (o *Options) dispatching(now func() dispatch.Time) dispatcher.Options {
	return dispatcher.Options{
		Now: now, MaxQueue: o.MaxQueue, MaxCalls: o.MaxInFlight, Patient: o.Patient,
		Margin: o.Margin, FunctionMargin: o.functionMargin, Span: o.Span, FunctionSpan: o.functionSpan, Record: o.Record,
		Elsewhere: o.Dispatched, Policies: o.Policies,
	}
}
