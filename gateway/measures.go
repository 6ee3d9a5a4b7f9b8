package gateway

import (
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Measures says what was seen of a pipeline in the last seconds: Options.Span
// and the second that is under way. Reading changes nothing, so that several
// may read. Of a pipeline that is not served only the name is set.
func (g *Gateway) Measures(name string) autoscale.Measures {
	m := autoscale.Measures{Pipeline: name, To: time.Now(), Attainment: 1}
	g.mu.Lock()
	c := g.clusters[name]
	g.mu.Unlock()
	if c != nil {
		return g.measureCluster(c, m)
	}
	p := g.pipeline(name)
	if p == nil {
		return m
	}
	gr := p.current.Load()
	now := g.now()
	m.Generation, m.Kind = gr.Deployment.Generation, gr.Deployment.Kind()
	m.InFlight = p.accepted.Load()
	p.stats.Measure(now, &m)
	if gr.function != nil {
		m.Function = gr.function.measure(now, &m)
	}
	m.Modules = g.queue.Measure(gr.Generation)
	g.failures.tell(now, name, m.Modules)
	if c := p.canary.Load(); c != nil {
		m.Canary = c.seen(p)
		m.Tried = g.queue.Measure(c.to.current.Load().Generation)
	}
	m.SetAttainment()
	return m
}

// Deployment is what serves under a name; false where nothing does.
func (g *Gateway) Deployment(name string) (placement.Deployment, bool) {
	g.mu.Lock()
	c := g.clusters[name]
	g.mu.Unlock()
	if c != nil {
		return c.deployment, true
	}
	p := g.pipeline(name)
	if p == nil {
		return placement.Deployment{}, false
	}
	return p.current.Load().Deployment, true
}

// Totals are the outcomes of a pipeline since it was first installed.
func (g *Gateway) Totals(name string) map[Outcome]int64 {
	if p := g.pipeline(name); p != nil {
		return p.stats.Totals()
	}
	return map[Outcome]int64{}
}

// Recording is what the dispatcher of all modules that are served now has lately been
// told and decided, for harpagon replay.
func (g *Gateway) Recording() recording.Recording {
	return recording.Recording{
		Head:     recording.Head{Program: "harpagon gateway", Written: time.Now(), Epoch: g.epoch},
		Stations: g.queue.Recording(),
	}
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
