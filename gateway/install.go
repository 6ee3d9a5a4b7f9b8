package gateway

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	all, err := g.prepared(ctx, d)
	if err != nil {
		return err
	}
	for {
		g.mu.Lock()
		changed := g.changed
		missing, err := g.missing(all)
		g.mu.Unlock()
		if err != nil || len(missing) == 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("gateway: %s %q generation %d still waits for executors %s, which have not attached in time; see harpagon status and the logs of their workers: %w",
				d.Kind(), d.Pipeline.Name, d.Generation, strings.Join(missing, ", "), context.Cause(ctx))
		}
	}
}

// missing lists the slots without an executor. Gateway.mu is held.
func (g *Gateway) missing(all []*deployed) (names []string, err error) {
	for _, gr := range all {
		for _, s := range gr.Deployment.Slots {
			e := g.executors[s.Executor]
			if e == nil && !slices.Contains(names, s.Executor) {
				names = append(names, s.Executor)
			}
			if e == nil {
				continue
			}
			for _, n := range gr.nodesOf(s.Module) {
				if err := checkRoute(n, e); err != nil {
					return nil, err
				}
			}
		}
	}
	return names, nil
}

// nodesOf are those that an executor of a slot serves: its module's, or all.
func (gr *deployed) nodesOf(module string) []*Node {
	if module == placement.AllModules {
		return gr.Nodes
	}
	if n := gr.Node(module); n != nil {
		return []*Node{n}
	}
	return nil
}

// Install switches the traffic of a pipeline to the deployment: requests that
// arrive from now on follow it, waiting items move to its policies, and what
// is under way finishes. No request fails because of it. To install the
// generation that is installed already is allowed and changes nothing but the
// executors in use; an older one is refused.
func (g *Gateway) Install(ctx context.Context, d placement.Deployment) error {
	if d.Cluster != nil {
		return g.installCluster(d)
	}
	gr, err := g.compile(ctx, d, false)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := gr.Deployment.Name()
	p := g.pipeline(name)
	if err := g.removedSince(&gr.Deployment); err != nil {
		return err
	}
	var before *deployed
	if p == nil {
		p = &pipeline{name: name}
		p.stats.Init(g.span(gr), g.now())
		p.shares.Init(&g.tenants, &p.accepted)
	} else if p.within != "" {
		return fmt.Errorf("gateway: pipeline %q is served in cluster %q; take it out of that first", name, p.within)
	} else if before = p.current.Load(); gr.Deployment.Age().Before(before.Deployment.Age()) {
		return older(&gr.Deployment, &before.Deployment)
	} else if gr.function != nil && before.Deployment.Age() == gr.Deployment.Age() {
		return nil // its counts go on
	}
	unfit := g.assignExecutors(p, gr)
	moved := g.queue.Install(gr.Generation, unfit, gr.function.callers())
	p.current.Store(gr)
	g.retire(p, before)
	delete(g.removed, name)
	all := maps.Clone(*g.pipelines.Load())
	all[p.name] = p
	g.pipelines.Store(&all)
	g.installed(p, gr, before, moved)
	g.expireStreams(p)
	return nil
}

// removedSince reports that the service was removed after a deployment was made: the order to
// install it has come late. Gateway.mu is held.
func (g *Gateway) removedSince(d *placement.Deployment) error {
	if since, ok := g.removed[d.Name()]; ok && d.Age().Before(since) {
		return fmt.Errorf("gateway: %s %q was removed after generation %d of it was made", d.Kind(), d.Name(), d.Generation)
	}
	return nil
}

// older reports that what serves was made later than a deployment.
func older(d, serves *placement.Deployment) error {
	of := ""
	if d.Life != serves.Life {
		of = ", of before it was deleted,"
	}
	return fmt.Errorf("gateway: %s %q serves generation %d; generation %d%s is older", d.Kind(), d.Name(), serves.Generation, d.Generation, of)
}

// compile makes a graph of a deployment. That of a function is made a pipeline first.
func (g *Gateway) compile(ctx context.Context, d placement.Deployment, mustAnswer bool) (*deployed, error) {
	gr := new(deployed)
	if d.Function != nil {
		f, err := g.function(ctx, d.Function, mustAnswer)
		if err != nil {
			return nil, err
		}
		f.deployment.Generation = cmp.Or(d.Generation, d.Function.Generation)
		d.Generation, d.Pipeline = f.deployment.Generation, f.asPipeline()
		gr.function = f
	}
	generation, err := g.queue.Compile(d)
	if err == nil {
		gr.Graph, err = Compile(generation, g.queue, g)
	}
	if err == nil {
		gr.Graph.exceeded = g.options.Observer.Exceeded
	}
	return gr, err
}

func (g *Gateway) installed(p *pipeline, gr, before *deployed, moved int) {
	o := g.options.Observer.Installed
	if o == nil {
		return
	}
	i := InstallInfo{Pipeline: p.name, Generation: gr.Deployment.Generation, Executors: len(gr.Deployment.Slots), Moved: moved, Policies: make(map[string]string, len(gr.Nodes))}
	for k, n := range gr.Nodes {
		names := []string{n.Name}
		if gr.function != nil {
			names = groupNames(&gr.function.deployment.Plan)
		}
		for _, name := range names {
			i.Policies[name] = gr.Policy(k)
		}
	}
	if before != nil {
		i.Previous = before.Deployment.Generation
	}
	o(i)
}

// assignExecutors gives every node of the graph its module, and notes which executors serve it.
// It returns those that cannot. Gateway.mu is held.
func (g *Gateway) assignExecutors(p *pipeline, gr *deployed) (unfit []string) {
	modules := make(map[string]*Module, len(gr.Nodes))
	for _, n := range gr.Nodes {
		identity := placement.Identity(&gr.Deployment, n.Name)
		if n.Module = p.modules[n.Name]; n.Module == nil || n.Module.Identity != identity {
			n.Module = &Module{Identity: identity}
		}
		modules[n.Name] = n.Module
	}
	p.modules = modules
	for _, s := range gr.Deployment.Slots {
		if e := g.executors[s.Executor]; e != nil && !e.serve(g, gr, s.Module) {
			unfit = append(unfit, s.Executor)
		}
	}
	return unfit
}

// span is the time that measures of the service look back on.
func (g *Gateway) span(gr *deployed) time.Duration {
	if gr.function != nil {
		return g.options.functionSpan
	}
	return g.options.Span
}

// retire keeps the graphs before for as long as they have requests.
func (g *Gateway) retire(p *pipeline, before *deployed) {
	p.old = slices.DeleteFunc(p.old, func(gr *deployed) bool {
		idle := gr.InFlight.Load() == 0
		if idle {
			g.queue.Forget(gr.Generation)
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
		if e := g.executors[name]; e != nil && (e.hello.Pipeline == pipelineName || e.cluster == pipelineName) {
			leaving = append(leaving, e)
		}
	}
	g.mu.Unlock()
	for _, e := range leaving {
		g.queue.Release(e.registration)
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

// wanted reports whether one of the executors serves a module that only requests
// of older generations use, and whether there still are such.
func (g *Gateway) wanted(pipelineName string, executors []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.pipelinesOf(pipelineName)
	if c := g.clusters[pipelineName]; c != nil {
		all = slices.Concat(all, c.gone)
	}
	busy := func(gr *deployed) bool { return gr.InFlight.Load() > 0 }
	calls := func(p *pipeline) bool { return p.current.Load().function != nil && slices.ContainsFunc(p.old, busy) }
	if slices.ContainsFunc(all, calls) {
		return true // a function has no executors, and its old generations still call
	}
	retired := func(name string) bool {
		e := g.executors[name]
		return e != nil && len(e.modules) > 0 && !slices.ContainsFunc(e.modules, func(m *Module) bool {
			return slices.ContainsFunc(all, func(p *pipeline) bool { return p.uses(m) })
		})
	}
	return slices.ContainsFunc(executors, retired) && slices.ContainsFunc(all, func(p *pipeline) bool { return slices.ContainsFunc(p.old, busy) })
}

// uses reports whether the current graph has the module. Gateway.mu is held.
func (p *pipeline) uses(m *Module) bool {
	for _, used := range p.modules {
		if used == m {
			return true
		}
	}
	return false
}

// Remove stops serving a pipeline: new requests are refused, and it waits
// until those under way have ended. Its executors stay attached; Release
// drains them. A pipeline that is not served is removed already. Deployments from before
// an age are not installed any more, should they come late, and what serves and is not from
// before it stays: then it is this order that comes late. A zero age refuses none.
func (g *Gateway) Remove(ctx context.Context, name string, since placement.Age) error {
	g.mu.Lock()
	if since.Life > 0 && !since.Before(g.removed[name]) {
		g.removed[name] = since
	}
	c, p := g.clusters[name], g.pipeline(name)
	switch {
	case c != nil && madeSince(&c.deployment, since), p != nil && madeSince(&p.current.Load().Deployment, since):
		g.mu.Unlock()
		return nil
	case c != nil:
		g.mu.Unlock()
		return g.removeCluster(ctx, name, c)
	}
	all := maps.Clone(*g.pipelines.Load())
	delete(all, name)
	g.pipelines.Store(&all)
	g.queue.Remove(name)
	g.mu.Unlock()
	if p == nil {
		return nil
	}
	return g.ended(ctx, p)
}

// madeSince reports that a deployment is of an age or a later one; nothing is of a zero one.
func madeSince(d *placement.Deployment, age placement.Age) bool {
	return age != (placement.Age{}) && d.Life >= age.Life && !d.Age().Before(age)
}

// ended waits for the requests of a pipeline that is not served any more.
func (g *Gateway) ended(ctx context.Context, p *pipeline) error {
	p.gone.Store(true) // a request that has found it and not entered sees this, or is waited for
	if err := g.until(ctx, func() bool { return p.accepted.Load() == 0 }); err != nil {
		return fmt.Errorf("gateway: requests of pipeline %q are still under way: %w", p.name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gr := range append(p.old, p.current.Load()) {
		g.queue.Forget(gr.Generation)
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

// compileCluster makes the parts of a cluster.
func (g *Gateway) compileCluster(d *placement.Deployment) ([]partOf, error) {
	var all []partOf
	for _, one := range d.Apart() {
		whole, err := g.queue.Compile(one)
		if err != nil {
			return nil, err
		}
		part := partOf{whole: whole}
		for _, m := range whole.Members() {
			gr, err := Compile(m, g.queue, g)
			if err != nil {
				return nil, err
			}
			gr.exceeded = g.options.Observer.Exceeded
			part.members = append(part.members, &deployed{Graph: gr})
		}
		all = append(all, part)
	}
	return all, nil
}

// prepared are the graphs of a deployment of any kind, to see whether executors fit.
func (g *Gateway) prepared(ctx context.Context, d placement.Deployment) ([]*deployed, error) {
	if d.Cluster == nil {
		gr, err := g.compile(ctx, d, true)
		return []*deployed{gr}, err
	}
	parts, err := g.compileCluster(&d)
	var all []*deployed
	for _, part := range parts {
		all = append(all, part.members...)
	}
	return all, err
}

// installCluster switches the traffic of all pipelines of a cluster.
func (g *Gateway) installCluster(d placement.Deployment) error {
	parts, err := g.compileCluster(&d)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	name := d.Name()
	if err := g.removedSince(&d); err != nil {
		return err
	}
	before := g.clusters[name]
	if before != nil && d.Age().Before(before.deployment.Age()) {
		return older(&d, &before.deployment)
	}
	next := &cluster{deployment: d}
	all := maps.Clone(*g.pipelines.Load())
	for _, part := range parts {
		for _, gr := range part.members {
			pipeline := gr.Deployment.Name()
			switch p := all[pipeline]; {
			case p == nil || p.within == name:
			case p.within != "":
				return fmt.Errorf("gateway: pipeline %q is in cluster %q already, and its requests wait in one place only; take it out of that, or of cluster %q", pipeline, p.within, name)
			default:
				return fmt.Errorf("gateway: %s %q is served by itself, and cluster %q is to serve it, too; take it down first: harpagon down %s", p.current.Load().Deployment.Kind(), pipeline, name, pipeline)
			}
		}
	}
	for _, part := range parts {
		moved := g.installPart(name, part, all)
		for _, gr := range part.members {
			next.members = append(next.members, all[gr.Deployment.Name()])
		}
		g.installedPart(part, before, moved)
	}
	if before != nil {
		for _, p := range before.members {
			if !slices.Contains(next.members, p) {
				delete(all, p.name)
				p.modules = nil
				g.retire(p, p.current.Load())
				next.gone = append(next.gone, p)
			}
		}
		for _, p := range before.gone {
			if g.retire(p, nil); len(p.old) > 0 {
				next.gone = append(next.gone, p)
			}
		}
		for _, one := range before.deployment.Cluster.Parts {
			if !slices.ContainsFunc(d.Cluster.Parts, func(p placement.Part) bool { return p.Name == one.Name }) {
				g.queue.Remove(one.Name)
			}
		}
	}
	g.clusters[name] = next
	delete(g.removed, name)
	g.pipelines.Store(&all)
	return nil
}

// installPart installs one part, and enters its pipelines. Gateway.mu is held.
func (g *Gateway) installPart(cluster string, part partOf, all map[string]*pipeline) (moved int) {
	var unfit []string
	for _, gr := range part.members {
		name := gr.Deployment.Name()
		p := all[name]
		if p == nil {
			p = &pipeline{name: name, within: cluster}
			p.stats.Init(g.options.Span, g.now())
			p.shares.Init(&g.tenants, &p.accepted)
			all[name] = p
		}
		unfit = append(unfit, g.assignExecutors(p, gr)...)
	}
	moved = g.queue.Install(part.whole, unfit, nil)
	for _, gr := range part.members {
		p := all[gr.Deployment.Name()]
		before := p.current.Load()
		p.current.Store(gr)
		g.retire(p, before)
		g.expireStreams(p)
	}
	return moved
}

func (g *Gateway) installedPart(part partOf, before *cluster, moved int) {
	o := g.options.Observer.Installed
	if o == nil {
		return
	}
	of := &part.whole.Deployment
	i := InstallInfo{Pipeline: of.Name(), Generation: of.Generation, Executors: len(of.Slots), Moved: moved, Policies: map[string]string{}}
	for k := range part.whole.Nodes {
		i.Policies[part.whole.Nodes[k].Module] = part.whole.Policy(0)
	}
	if before != nil {
		i.Previous = before.deployment.Generation
	}
	o(i)
}

// graphsOf are the graphs that an executor of a service may have to serve. Gateway.mu
// is held.
func (g *Gateway) graphsOf(service string) (all []*deployed) {
	if p := g.pipeline(service); p != nil {
		return []*deployed{p.current.Load()}
	}
	for _, c := range g.clusters {
		for _, p := range c.members {
			if gr := p.current.Load(); gr.Deployment.Within == service {
				all = append(all, gr)
			}
		}
	}
	return all
}

// pipelinesOf are those of a service: itself, or the members of a cluster. Gateway.mu is
// held.
func (g *Gateway) pipelinesOf(service string) []*pipeline {
	if c := g.clusters[service]; c != nil {
		return c.members
	}
	if p := g.pipeline(service); p != nil {
		return []*pipeline{p}
	}
	return nil
}

// removeCluster stops serving a cluster.
func (g *Gateway) removeCluster(ctx context.Context, name string, c *cluster) error {
	g.mu.Lock()
	all := maps.Clone(*g.pipelines.Load())
	for _, p := range c.members {
		delete(all, p.name)
	}
	g.pipelines.Store(&all)
	delete(g.clusters, name)
	for _, part := range c.deployment.Cluster.Parts {
		g.queue.Remove(part.Name)
	}
	g.mu.Unlock()
	for _, p := range c.members {
		if err := g.ended(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
