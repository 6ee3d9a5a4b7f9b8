package gateway

import (
	"maps"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/functions"
)

// Measures says what was seen of a pipeline in the last seconds: Options.Span
// and the second that is under way. Reading changes nothing, so that several
// may read. Of a pipeline that is not served only the name is set.
func (g *Gateway) Measures(name string) autoscale.Measures {
	m := autoscale.Measures{Pipeline: name, To: time.Now(), Attainment: 1}
	p := g.pipeline(name)
	if p == nil {
		return m
	}
	gr := p.current.Load()
	now := g.now()
	m.Generation, m.Kind = gr.deployment.Generation, gr.deployment.Kind()
	m.InFlight = p.accepted.Load()
	p.stats.Measure(now, &m)
	if gr.function != nil {
		m.Function = gr.function.measure(gr.nodes[0].station, now, &m)
	}
	for _, n := range gr.nodes {
		m.Modules = append(m.Modules, n.station.measure(now))
	}
	m.SetAttainment()
	return m
}

// Totals are the outcomes of a pipeline since it was first installed.
func (g *Gateway) Totals(name string) map[Outcome]int64 {
	if p := g.pipeline(name); p != nil {
		return p.stats.Totals()
	}
	return map[Outcome]int64{}
}

func (s *station) measure(now dispatch.Time) autoscale.ModuleMeasures {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := autoscale.ModuleMeasures{Name: s.name, Policy: s.policy.Name(), Waiting: s.policy.Len()}
	s.stats.Measure(now, &m)
	return m
}

// measure says what was seen of a function, and adds it to m.
func (f *function) measure(s *station, now dispatch.Time, m *autoscale.Measures) *functions.Measures {
	all := &functions.Measures{Function: m.Pipeline, Generation: m.Generation, From: m.To, To: m.To}
	for _, a := range f.apps {
		one, from := a.stats.MeasureApplication(a.name, now, m.To)
		all.Applications = append(all.Applications, one)
		if from.Before(all.From) {
			all.From = from
		}
	}
	m.From, m.Offered = all.From, all.Offered()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range f.groups {
		g.Errors = maps.Clone(g.Errors)
		all.Groups = append(all.Groups, g)
	}
	return all
}
