package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/dispatcher"
	"github.com/harpagon/harpagon/gateway/graph"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
)

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
			gr, err := graph.Compile(m, g.queue, g)
			if err != nil {
				return nil, err
			}
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
	before := g.clusters[name]
	if before != nil && before.deployment.Generation > d.Generation {
		return fmt.Errorf("gateway: cluster %q serves generation %d; generation %d is older", name, before.deployment.Generation, d.Generation)
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
			all[name] = p
		}
		unfit = append(unfit, g.equip(p, gr)...)
	}
	moved = g.queue.Install(part.whole, unfit, nil)
	for _, gr := range part.members {
		p := all[gr.Deployment.Name()]
		before := p.current.Load()
		p.current.Store(gr)
		g.retire(p, before)
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

// describeCluster is Metadata of a cluster.
func (g *Gateway) describeCluster(name string) (*wire.Metadata, error) {
	g.mu.Lock()
	c := g.clusters[name]
	g.mu.Unlock()
	if c == nil {
		return nil, notFound(name)
	}
	m := &wire.Metadata{Pipeline: name, Generation: c.deployment.Generation, Ready: true}
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

// measureCluster is Measures of a cluster: the sum, and each pipeline by itself.
func (g *Gateway) measureCluster(c *cluster, m autoscale.Measures) autoscale.Measures {
	for _, p := range c.members {
		m.Members = append(m.Members, g.Measures(p.name))
	}
	m.Generation = c.deployment.Generation
	m.SumMembers()
	return m
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
