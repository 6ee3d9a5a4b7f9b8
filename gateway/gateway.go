package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	stats    pipelineStats

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
	g.pipelines.Store(&map[string]*pipeline{})
	return g
}

// now is the time on the gateway's clock; never 0, which means none.
func (g *Gateway) now() dispatch.Time { return time.Since(g.epoch) + 1 }

func (g *Gateway) pipeline(name string) *pipeline { return (*g.pipelines.Load())[name] }

// Pipelines lists what is served, in order of name.
func (g *Gateway) Pipelines(context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(*g.pipelines.Load())), nil
}

// Metadata describes a pipeline. The error has code "not_found" for one that
// is not served.
func (g *Gateway) Metadata(_ context.Context, name string) (*wire.Metadata, error) {
	p := g.pipeline(name)
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

// Close ends all streams. Requests under way fail as soon as their executors
// are gone; call it after the servers in front have stopped.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	all := slices.Collect(maps.Values(g.executors))
	g.mu.Unlock()
	for _, e := range all {
		_ = e.stream.Close()
	}
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
	return BatchInfo{Pipeline: f.station.pipeline, Module: f.station.name, Executor: f.exec.hello.Executor, Size: f.rows()}
}
