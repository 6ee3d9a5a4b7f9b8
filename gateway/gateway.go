package gateway

import (
	"context"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
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
	gone     atomic.Bool  // it takes in none any more
	stats    dispatcher.ServiceStats
	shares   Service                // of what it takes in
	canary   atomic.Pointer[canary] // another generation that gets a share of its requests; nil for none

	modules map[string]*Module // of the current graph; under Gateway.mu
	old     []*deployed        // that may still have requests; under Gateway.mu
}

// deployed is a graph with what serves it.
type deployed struct {
	*Graph
	function *function // nil where executors of this fleet serve
}

// cluster is one that the gateway serves: pipelines that requests name, and parts with
// a station each, which dispatchers know as services.
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
		clusters:  make(map[string]*cluster),
		executors: make(map[string]*executor),
		removed:   make(map[string]placement.Age),
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

// Told are the names by which observers are told of what is served, with the modules, those
// tried and those of requests under way among them.
func (g *Gateway) Told() map[string][]string {
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
		Pipeline: name, Generation: gr.Deployment.Generation, SLO: gr.SLO, Ready: true,
		Inputs: slices.Clone(gr.Inputs), Platform: oip.PlatformOf(placement.EmulatedBy(gr.Deployment.Slots)),
	}
	if f := gr.function; f != nil {
		if err := f.metadata(m, application); err != nil {
			return nil, err
		}
		return m, nil
	}
	for _, n := range gr.Nodes {
		if _, down := g.queue.Down(gr.Generation, n.Index()); down && m.Ready {
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
		if _, down := g.queue.Down(gr.Generation, 0); down && m.Ready {
			m.Ready, m.Reason = false, "no executor is attached for pipeline "+p.name
		}
	}
	return m, nil
}

// noPipeline says why a request that names it cannot be served.
func (g *Gateway) noPipeline(name string) error {
	m, err := g.describeCluster(name)
	if err != nil {
		return err
	}
	var names []string
	for _, p := range m.Members {
		names = append(names, p.Name)
	}
	return wire.Errorf(wire.CodeInvalid, "", "%q is a cluster; ask for one of its pipelines: %s", name, strings.Join(names, ", "))
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
