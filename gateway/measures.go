package gateway

import (
	"maps"
	"slices"
	"strings"
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
	p.stats.measure(now, &m)
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
	out := make(map[Outcome]int64)
	if p := g.pipeline(name); p != nil {
		p.stats.mu.Lock()
		defer p.stats.mu.Unlock()
		for o := Completed; o <= Invalid; o++ {
			out[o] = p.stats.total[o]
		}
	}
	return out
}

func (s *pipelineStats) measure(now dispatch.Time, m *autoscale.Measures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring.advance(now)
	span := min(s.ring.span(now), now-s.since)
	m.From = m.To.Add(-span)
	var latency histogram
	for i := range s.ring.seconds {
		second := &s.ring.seconds[i]
		m.Arrived += second.arrived
		m.Completed += second.outcomes[Completed]
		m.Late += second.outcomes[Late]
		m.Dropped += second.outcomes[Dropped]
		m.Refused += second.outcomes[Refused]
		m.Failed += second.outcomes[Failed]
		m.Cancelled += second.outcomes[Cancelled]
		m.Invalid += second.outcomes[Invalid]
		latency.merge(&second.latency)
	}
	m.Offered = rate(m.Arrived, span)
	m.Latency = latency.percentiles()
}

func rate(n int64, span time.Duration) float64 {
	if span <= 0 {
		return 0
	}
	return float64(n) / span.Seconds()
}

func (s *station) measure(now dispatch.Time) autoscale.ModuleMeasures {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.stats.ring
	r.advance(now)
	span := min(r.span(now), now-s.since)
	m := autoscale.ModuleMeasures{Name: s.name, Policy: s.policy.Name(), Waiting: s.policy.Len()}
	var sum moduleSecond
	for i := range r.seconds {
		sum.merge(&r.seconds[i])
	}
	m.Requests, m.Batches, m.Failed = sum.requests, sum.batches, sum.failed
	for _, d := range sum.drops {
		if m.Drops == nil {
			m.Drops = make(map[string]int64, len(sum.drops))
		}
		m.Drops[d.kind] = d.n
		m.Dropped += d.n
	}
	for _, b := range sum.sizes {
		m.Sizes = append(m.Sizes, autoscale.SizeCount{Size: b.kind, Batches: b.n})
	}
	m.Queries = queries(sum.queries)
	slices.SortFunc(m.Sizes, func(a, b autoscale.SizeCount) int { return a.Size - b.Size })
	m.Rate = rate(sum.requests, span)
	if sum.batches > 0 {
		m.MeanBatch = float64(sum.batched) / float64(sum.batches)
	}
	m.Queue, m.Wait = sum.queue.percentiles(), sum.wait.percentiles()
	m.Compute, m.Transfer = sum.compute.percentiles(), sum.transfer.percentiles()
	m.Durations = s.stats.durations(now - span)
	for _, e := range sum.executors {
		m.Executors = append(m.Executors, autoscale.ExecutorMeasures{
			Executor: e.name, Batches: e.batches, Requests: e.requests,
			Utilisation: min(1, e.compute.Seconds()/max(span.Seconds(), 1e-3)),
		})
	}
	slices.SortFunc(m.Executors, func(a, b autoscale.ExecutorMeasures) int {
		return strings.Compare(a.Executor, b.Executor)
	})
	return m
}

func (s *moduleSecond) merge(o *moduleSecond) {
	s.requests += o.requests
	s.batches += o.batches
	s.batched += o.batched
	for _, d := range o.drops {
		s.drops = tallyUp(s.drops, d.kind, d.n)
	}
	for _, b := range o.sizes {
		s.sizes = tallyUp(s.sizes, b.kind, b.n)
	}
	for _, q := range o.queries {
		s.queries = tallyUp(s.queries, q.kind, q.n)
	}
	s.failed += o.failed
	s.queue.merge(&o.queue)
	s.wait.merge(&o.wait)
	s.compute.merge(&o.compute)
	s.transfer.merge(&o.transfer)
	for _, e := range o.executors {
		mine := s.executor(e.name)
		mine.batches += e.batches
		mine.requests += e.requests
		mine.compute += e.compute
	}
}

// measure says what was seen of a function, and adds it to m.
func (f *function) measure(s *station, now dispatch.Time, m *autoscale.Measures) *functions.Measures {
	all := &functions.Measures{Function: m.Pipeline, Generation: m.Generation, From: m.To, To: m.To}
	for _, a := range f.apps {
		one, from := a.measure(now, m.To)
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

func (a *application) measure(now dispatch.Time, to time.Time) (m functions.ApplicationMeasures, from time.Time) {
	lately := autoscale.Measures{To: to}
	a.stats.measure(now, &lately)
	s := &a.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.latency.percentiles()
	return functions.ApplicationMeasures{
		Name: a.name, Offered: lately.Offered, Requests: s.requests, InFlight: s.underWay,
		Completed: s.total[Completed], Late: s.total[Late], LateCold: s.lateCold, Dropped: s.total[Dropped], Refused: s.total[Refused],
		Failed: s.total[Failed], Cancelled: s.total[Cancelled], Invalid: s.total[Invalid],
		P50: all.P50, P99: all.P99, Max: all.Max,
	}, lately.From
}
