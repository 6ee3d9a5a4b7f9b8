package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/autoscale/size"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/placement"
)

// Measures reports what was seen of a pipeline in the last seconds: Options.Span
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
	for module, items := range p.stats.Splits(now) {
		if of := m.Module(module); of != nil {
			of.Items = items
		}
	}
	if streams, ok := g.Streams(name); ok {
		m.Streams = &streams
	}
	g.failures.report(now, name, m.Modules)
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

// Counts are the requests to a service since it was first installed, those of a cluster's
// pipelines together.
func (g *Gateway) Counts(name string) (all size.Counts) {
	g.mu.Lock()
	c := g.clusters[name]
	g.mu.Unlock()
	if c != nil {
		for _, p := range c.members {
			all = all.Add(p.stats.Counts())
		}
	} else if p := g.pipeline(name); p != nil {
		all = p.stats.Counts()
	}
	return all
}

// Recording holds the latest events and decisions of the dispatchers of all modules that are
// served now, for harpagon replay.
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

// DurationStatistics is how often something happened and how long it took altogether.
type DurationStatistics struct {
	Count int64         `json:"count"`
	Total time.Duration `json:"ns"`
}

func (d *DurationStatistics) add(took time.Duration) { d.Count++; d.Total += max(took, 0) }

// BatchStatistics are those of one size, over all modules of a pipeline.
type BatchStatistics struct {
	Size    int
	Compute DurationStatistics
}

// PipelineStatistics is what was seen of a pipeline since the gateway began to serve it.
type PipelineStatistics struct {
	Generation int                // of the last request
	Last       time.Time          // when it ended; zero before the first
	Success    DurationStatistics // requests that were answered, late ones included
	Fail       DurationStatistics // all others
	Queue      DurationStatistics // of those answered: waiting for batches and devices, on the critical path
	Compute    DurationStatistics // of those answered: in engines, on the critical path
	Batches    []BatchStatistics  // by size
	Executed   int64              // batches that were computed
}

// StatisticsCollector adds up what happens in a gateway, for the protocol's statistics
// extension. Make it with NewStatistics.
type StatisticsCollector struct {
	mu        sync.Mutex
	pipelines map[string]*counts
}

type counts struct {
	PipelineStatistics
	sizes map[int]*DurationStatistics
}

// NewStatistics makes a collector that has seen nothing.
func NewStatistics() *StatisticsCollector {
	return &StatisticsCollector{pipelines: make(map[string]*counts)}
}

// Observer feeds the collector; see gateway.Tee.
func (c *StatisticsCollector) Observer() Observer {
	return Observer{RequestEnd: c.request, BatchEnd: c.batch}
}

// Of is what was seen of a pipeline.
func (c *StatisticsCollector) Of(pipeline string) PipelineStatistics {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.pipelines[pipeline]
	if seen == nil {
		return PipelineStatistics{}
	}
	p := seen.PipelineStatistics
	for _, size := range slices.Sorted(maps.Keys(seen.sizes)) {
		p.Batches = append(p.Batches, BatchStatistics{Size: size, Compute: *seen.sizes[size]})
	}
	return p
}

// of is called with the lock.
func (c *StatisticsCollector) of(pipeline string) *counts {
	p := c.pipelines[pipeline]
	if p == nil {
		p = &counts{sizes: make(map[int]*DurationStatistics)}
		c.pipelines[pipeline] = p
	}
	return p
}

func (c *StatisticsCollector) request(i RequestInfo) {
	if i.Generation == 0 { // turned away before any pipeline saw it
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(i.Pipeline)
	p.Generation, p.Last = i.Generation, now
	if i.Outcome != Completed && i.Outcome != Late {
		p.Fail.add(i.Elapsed)
		return
	}
	p.Success.add(i.Elapsed)
	var queue, compute time.Duration
	for _, s := range i.Stages {
		if s.Critical {
			queue, compute = queue+s.Queue+s.Wait, compute+s.Compute
		}
	}
	p.Queue.add(queue)
	p.Compute.add(compute)
}

func (c *StatisticsCollector) batch(i BatchInfo) {
	if i.Err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(i.Pipeline)
	p.Executed++
	d := p.sizes[i.Size]
	if d == nil {
		d = new(DurationStatistics)
		p.sizes[i.Size] = d
	}
	d.add(i.Compute)
}

// AllStreams are those of every pipeline that has any, by its name.
func (g *Gateway) AllStreams() map[string]admission.StreamShares {
	all := map[string]admission.StreamShares{}
	for name := range *g.pipelines.Load() {
		if of, ok := g.Streams(name); ok {
			all[name] = of
		}
	}
	return all
}

// StreamLines are the streams of a pipeline that are open at this gateway and attain least, so many at
// the most.
func (g *Gateway) StreamLines(name string, most int) []admission.StreamLine {
	p := g.pipeline(name)
	if p == nil {
		return nil
	}
	return p.streams.lines(most)
}

// Streams reports the streams of a pipeline that are open at this gateway; false where it has none.
func (g *Gateway) Streams(name string) (admission.StreamShares, bool) {
	p := g.pipeline(name)
	if p == nil {
		return admission.StreamShares{}, false
	}
	gr := p.current.Load()
	if !gr.hasStreams() {
		return admission.StreamShares{}, false
	}
	return p.streams.shares(gr.rules), true
}

// lines are those streams that attain least.
func (s *streams) lines(most int) []admission.StreamLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []admission.StreamLine
	for kind, of := range s.of {
		for _, line := range of.Lines(most) {
			line.Kind = kind
			all = append(all, line)
		}
	}
	slices.SortFunc(all, admission.WorstFirst)
	all = all[:min(len(all), most)]
	for i := range all {
		all[i].ID, all[i].Name = streamID(all[i].Name), called(all[i].Name)
	}
	return all
}

// shares are what the streams attain.
func (s *streams) shares(rules []admission.StreamRules) admission.StreamShares {
	s.mu.Lock()
	defer s.mu.Unlock()
	kinds := make([]admission.StreamShares, len(rules))
	for i := range rules {
		kinds[i] = s.kind(rules[i].Kind).Shares(&rules[i])
		kinds[i].WorstName = called(kinds[i].WorstName)
	}
	return admission.SharesOfKinds(kinds)
}
