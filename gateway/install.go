package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// pollEvery is how often Release and Remove look whether requests of
// older generations are done.
const pollEvery = 2 * time.Millisecond

// Prepare waits until every executor of the deployment has attached, or, where
// functions serve, checks that their provider answers. Traffic does not change. It fails when the deployment cannot be run, when an
// executor does not fit its module, and when ctx ends first; the error then
// names the executors that are missing.
func (g *Gateway) Prepare(ctx context.Context, d placement.Deployment) error {
	gr, err := g.graph(ctx, d, true)
	if err == nil {
		_, err = g.policies(gr)
	}
	if err != nil {
		return err
	}
	for {
		g.mu.Lock()
		changed := g.changed
		missing, err := g.missing(gr)
		g.mu.Unlock()
		if err != nil || len(missing) == 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("gateway: pipeline %q generation %d still waits for executors %s, which have not attached in time; harpagon status and the logs of their workers say how they are: %w",
				d.Pipeline.Name, d.Generation, strings.Join(missing, ", "), context.Cause(ctx))
		}
	}
}

// missing lists the slots without an executor. Gateway.mu is held.
func (g *Gateway) missing(gr *graph) (names []string, err error) {
	for _, s := range gr.deployment.Slots {
		e := g.executors[s.Executor]
		if e == nil {
			names = append(names, s.Executor)
			continue
		}
		if err := checkRoute(gr.node(s.Module), e); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Install switches the traffic of a pipeline to the deployment: requests that
// arrive from now on follow it, waiting items move to its policies, and what
// is under way finishes. No request fails because of it. To install the
// generation that is installed already is allowed and changes nothing but the
// executors in use; an older one is refused.
func (g *Gateway) Install(ctx context.Context, d placement.Deployment) error {
	gr, err := g.graph(ctx, d, false)
	if err != nil {
		return err
	}
	policies, err := g.policies(gr)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name, generation := gr.deployment.Name(), gr.deployment.Generation
	p := g.pipeline(name)
	var before *graph
	if p == nil {
		p = &pipeline{name: name, stations: make(map[string]*station)}
		p.stats.Init(g.span(gr), g.now())
	} else if before = p.current.Load(); before.deployment.Generation > generation {
		return fmt.Errorf("gateway: %s %q serves generation %d; generation %d is older", gr.deployment.Kind(), name, before.deployment.Generation, generation)
	} else if gr.function != nil && before.deployment.Generation == generation {
		return nil // its counts go on
	}
	moved := g.equip(p, gr, policies)
	g.guard(gr)
	p.current.Store(gr)
	g.retire(p, before)
	all := maps.Clone(*g.pipelines.Load())
	all[p.name] = p
	g.pipelines.Store(&all)
	g.installed(p, gr, before, policies, moved)
	return nil
}

func (g *Gateway) installed(p *pipeline, gr, before *graph, policies []madePolicy, moved int) {
	o := g.options.Observer.Installed
	if o == nil {
		return
	}
	i := InstallInfo{Pipeline: p.name, Generation: gr.deployment.Generation, Executors: len(gr.deployment.Slots), Moved: moved, Policies: make(map[string]string, len(gr.nodes))}
	for k, n := range gr.nodes {
		names := []string{n.Module}
		if gr.function != nil {
			names = groupNames(&gr.function.deployment.Plan)
		}
		for _, name := range names {
			i.Policies[name] = policies[k].Name()
		}
	}
	if before != nil {
		i.Previous = before.deployment.Generation
	}
	o(i)
}

// equip gives every node of the graph its station, with policy and executors.
func (g *Gateway) equip(p *pipeline, gr *graph, policies []madePolicy) (moved int) {
	stations := make(map[string]*station, len(gr.nodes))
	setups := make([]setup, len(gr.nodes))
	for i, n := range gr.nodes {
		identity := identityOf(&gr.deployment, n)
		s := p.stations[n.Module]
		if s == nil || s.identity != identity {
			s = &station{gateway: g, pipeline: p.name, name: n.Module, identity: identity, recorder: g.newRecorder(), downAt: g.now()}
			s.stats.Init(g.span(gr), g.now())
		}
		n.station, stations[n.Module] = s, s
		setups[i] = g.setup(gr, n, policies[i])
	}
	for i, n := range gr.nodes {
		moved += n.station.configure(setups[i])
	}
	p.stations = stations
	return moved
}

// span is the time that measures of the service look back on.
func (g *Gateway) span(gr *graph) time.Duration {
	if gr.function != nil {
		return g.options.functionSpan
	}
	return g.options.Span
}

// identityOf says when a module stays the same from one deployment to the
// next, so that waiting items of the one may run on executors of the other.
func identityOf(d *placement.Deployment, n *node) string {
	if d.Function != nil {
		return "function" // requests wait for any generation of it
	}
	digest := ""
	for _, s := range d.Slots {
		if s.Module == n.Module {
			digest = s.Model
			break
		}
	}
	var inputs []string
	for _, in := range n.inputs {
		inputs = append(inputs, in.name)
	}
	slices.Sort(inputs)
	for _, b := range n.declared.Inputs {
		if b.IsConstant() {
			inputs = append(inputs, fmt.Sprintf("%s=%v", b.Name, b.Value))
		}
	}
	return fmt.Sprintf("%s|%s|%s|%s|%v|%v", digest, n.declared.Function, n.declared.Model, strings.Join(inputs, ","), n.declared.Unbatched, n.declared.BatchAxis)
}

func (g *Gateway) setup(gr *graph, n *node, policy madePolicy) setup {
	d := &gr.deployment
	c := setup{policy: policy.Policy, spec: policy.spec, windows: policy.Name() == factory.Default, function: gr.function}
	if gr.function != nil {
		for i, e := range gr.function.executors {
			c.members = append(c.members, member{exec: e, group: int32(i)})
		}
		return c
	}
	for _, o := range TCOptions(*d, n.Module, 0).Groups {
		c.groups = append(c.groups, groupShape{batch: o.Batch, window: o.Window})
	}
	for _, s := range d.Slots {
		e := g.executors[s.Executor]
		if s.Module != n.Module || e == nil || checkRoute(n, e) != nil {
			continue
		}
		if e.station != nil && e.station != n.station {
			e.station.remove(e)
		}
		e.station = n.station
		n.station.sig.Store(&e.hello.Signature)
		c.members = append(c.members, member{exec: e, group: int32(s.Group)})
	}
	return c
}

// retire keeps the graphs before for as long as they have requests.
func (g *Gateway) retire(p *pipeline, before *graph) {
	p.old = slices.DeleteFunc(p.old, func(gr *graph) bool {
		idle := gr.inFlight.Load() == 0
		if idle {
			g.door.forget(gr)
		}
		return idle
	})
	if before != nil {
		p.old = append(p.old, before)
	}
}

// Release drains the executors named: they finish what they hold and go. It
// first waits for the requests of older generations that may still need them,
// and then until their streams have ended. Names that are not attached count
// as gone. The error is ctx's, when that ends first.
func (g *Gateway) Release(ctx context.Context, pipelineName string, executors []string) error {
	if err := g.until(ctx, func() bool { return !g.wanted(pipelineName, executors) }); err != nil {
		return fmt.Errorf("gateway: waiting for the requests of older generations of pipeline %q: %w", pipelineName, err)
	}
	var leaving []*executor
	g.mu.Lock()
	for _, name := range executors {
		if e := g.executors[name]; e != nil && e.hello.Pipeline == pipelineName {
			leaving = append(leaving, e)
		}
	}
	g.mu.Unlock()
	for _, e := range leaving {
		g.detach(e)
		e.part(dismiss)
	}
	for _, e := range leaving {
		select {
		case <-e.gone:
		case <-ctx.Done():
			return fmt.Errorf("gateway: executor %q has not finished draining: %w", e.hello.Executor, context.Cause(ctx))
		}
	}
	return nil
}

// wanted says whether one of the executors serves a module that only requests
// of older generations use, and whether there still are such.
func (g *Gateway) wanted(pipelineName string, executors []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pipeline(pipelineName)
	if p == nil {
		return false
	}
	retired := func(name string) bool {
		e := g.executors[name]
		return e != nil && e.station != nil && p.stations[e.station.name] != e.station
	}
	busy := func(gr *graph) bool { return gr.inFlight.Load() > 0 }
	return slices.ContainsFunc(executors, retired) && slices.ContainsFunc(p.old, busy)
}

// Remove stops serving a pipeline: new requests are refused, and it waits
// until those under way have ended. Its executors stay attached; Release
// drains them. A pipeline that is not served is removed already.
func (g *Gateway) Remove(ctx context.Context, name string) error {
	g.mu.Lock()
	p := g.pipeline(name)
	all := maps.Clone(*g.pipelines.Load())
	delete(all, name)
	g.pipelines.Store(&all)
	g.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := g.until(ctx, func() bool { return p.accepted.Load() == 0 }); err != nil {
		return fmt.Errorf("gateway: requests of pipeline %q are still under way: %w", name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gr := range append(p.old, p.current.Load()) {
		g.door.forget(gr)
	}
	return nil
}

func (g *Gateway) until(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
