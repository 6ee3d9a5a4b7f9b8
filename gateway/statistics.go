package gateway

import (
	"maps"
	"slices"
	"sync"
	"time"
)

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

// StatisticsCollector adds up what happens in a gateway, for those who ask by the
// protocol's statistics extension. Make it with NewStatistics.
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

// Observer is to be told what happens; see gateway.Tee.
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
