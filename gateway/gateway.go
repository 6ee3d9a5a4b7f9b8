package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/gateway/stats"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/wire"
)

// Gateway serves pipelines. Make it with New; all methods may be called from
// many goroutines at once.
type Gateway struct {
	options Options
	epoch   time.Time
	door    door
	moves   atomic.Int64 // executors that have come to a device or left it

	pipelines atomic.Pointer[map[string]*pipeline] // replaced as a whole, under mu

	life     context.Context // of calls
	end      context.CancelFunc
	calls    sync.WaitGroup
	stopping atomic.Bool

	mu        sync.Mutex
	closed    bool
	executors map[string]*executor // attached, by name
	devices   map[string]*device   // by host and name; never forgotten
	numbered  int                  // devices that have been numbered
	changed   chan struct{}        // closed, and replaced, when executors change
}

// pipeline is what the gateway keeps of one that it serves.
type pipeline struct {
	name     string
	current  atomic.Pointer[graph]
	accepted atomic.Int64 // requests under way
	stats    stats.Service

	stations map[string]*station // of the current graph by module; under Gateway.mu
	old      []*graph            // that may still have requests; under Gateway.mu
}

// New makes a gateway that serves nothing yet.
func New(o Options) *Gateway {
	g := &Gateway{
		options:   o.withDefaults(),
		epoch:     time.Now(),
		executors: make(map[string]*executor),
		devices:   make(map[string]*device),
		changed:   make(chan struct{}),
	}
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

// Services lists what is served, in order of name.
func (g *Gateway) Services() []string {
	return slices.Sorted(maps.Keys(*g.pipelines.Load()))
}

// Pipelines lists what requests can name, in order: of a function its applications,
// as FUNCTION/APPLICATION.
func (g *Gateway) Pipelines(context.Context) ([]string, error) {
	var all []string
	for name, p := range *g.pipelines.Load() {
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
		return nil, notFound(name)
	}
	gr := p.current.Load()
	m := &wire.Metadata{
		Pipeline: name, Generation: gr.deployment.Generation, SLO: gr.slo, Ready: true,
		Inputs: slices.Clone(gr.inputs),
	}
	for _, n := range gr.nodes {
		if _, down := n.station.down(); down && m.Ready {
			m.Ready, m.Reason = false, "no executor is attached for module "+n.Module
		}
	}
	if f := gr.function; f != nil {
		s := gr.nodes[0].station
		s.mu.Lock()
		m.Ready, m.Reason = f.unreachable == "", f.unreachable
		s.mu.Unlock()
		if err := f.metadata(m, application); err != nil {
			return nil, err
		}
		return m, nil
	}
	for _, o := range gr.outputs {
		m.Outputs = append(m.Outputs, gr.outputPort(o))
	}
	return m, nil
}

// outputPort is the output as a caller sees it: gathered where it comes from a
// scope, and of shape [1] where it is a scalar.
func (gr *graph) outputPort(o output) pipelines.Port {
	port := pipelines.Port{Name: o.name}
	if o.from == nil {
		port.Datatype, port.Shape = gr.inputs[o.port].Datatype, gr.inputs[o.port].Shape
		return port
	}
	if sig := o.from.station.signature(); sig != nil {
		if p := portOf(sig.Outputs, o.from.outs[o.port]); p != nil {
			port.Datatype, port.Shape = p.Datatype, slices.Clone(p.Shape)
		}
	}
	switch {
	case o.from.Scope != 0, o.from.declared.Sized:
		port.Shape = append([]int64{-1}, port.Shape...)
	case len(port.Shape) == 0 && port.Datatype != "":
		port.Shape = []int64{1}
	}
	return port
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
	var callers []*station
	for _, p := range *g.pipelines.Load() {
		for _, s := range p.stations {
			if s.function != nil {
				callers = append(callers, s)
			}
		}
	}
	g.mu.Unlock()
	for _, e := range all {
		_ = e.stream.Close()
	}
	for _, s := range callers {
		s.close()
	}
	g.calls.Wait()
	g.options.Invoker.Close()
	return nil
}

func (g *Gateway) batchBegin(f *flight) {
	if o := g.options.Observer.BatchBegin; o != nil {
		o(f.info())
	}
}

func (g *Gateway) batchEnd(f *flight, now dispatch.Time, waited, compute time.Duration, err *wire.Error) {
	if o := g.options.Observer.BatchEnd; o != nil {
		i := f.info()
		i.Waited, i.Compute, i.Elapsed, i.Err = waited, compute, now-f.at, err
		o(i)
	}
}

func (f *flight) info() BatchInfo {
	return BatchInfo{Pipeline: f.station.pipeline, Module: f.items[0].stage(), Executor: f.exec.hello.Executor, Size: f.rows()}
}
