package statistics

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/gateway"
)

// Duration is how often something happened and how long it took altogether.
type Duration struct {
	Count int64         `json:"count"`
	Total time.Duration `json:"ns"`
}

func (d *Duration) add(took time.Duration) { d.Count++; d.Total += max(took, 0) }

// Batches are those of one size, over all modules of a pipeline.
type Batches struct {
	Size    int
	Compute Duration
}

// Pipeline is what was seen of a pipeline since the gateway began to serve it.
type Pipeline struct {
	Generation int       // of the last request
	Last       time.Time // when it ended; zero before the first
	Success    Duration  // requests that were answered, late ones included
	Fail       Duration  // all others
	Queue      Duration  // of those answered: waiting for batches and devices, on the critical path
	Compute    Duration  // of those answered: in engines, on the critical path
	Batches    []Batches // by size
	Executed   int64     // batches that were computed
}

// Collector adds up what happens in a gateway, for those who ask by the
// protocol's statistics extension. Make it with New.
type Collector struct {
	mu        sync.Mutex
	pipelines map[string]*counts
}

type counts struct {
	Pipeline
	sizes map[int]*Duration
}

// New makes a collector that has seen nothing.
func New() *Collector { return &Collector{pipelines: make(map[string]*counts)} }

// Observer is to be told what happens; see gateway.Tee.
func (c *Collector) Observer() gateway.Observer {
	return gateway.Observer{RequestEnd: c.request, BatchEnd: c.batch}
}

// Of is what was seen of a pipeline.
func (c *Collector) Of(pipeline string) Pipeline {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.pipelines[pipeline]
	if seen == nil {
		return Pipeline{}
	}
	p := seen.Pipeline
	for _, size := range slices.Sorted(maps.Keys(seen.sizes)) {
		p.Batches = append(p.Batches, Batches{Size: size, Compute: *seen.sizes[size]})
	}
	return p
}

// of is called with the lock.
func (c *Collector) of(pipeline string) *counts {
	p := c.pipelines[pipeline]
	if p == nil {
		p = &counts{sizes: make(map[int]*Duration)}
		c.pipelines[pipeline] = p
	}
	return p
}

func (c *Collector) request(i gateway.RequestInfo) {
	if i.Generation == 0 { // turned away before any pipeline saw it
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(i.Pipeline)
	p.Generation, p.Last = i.Generation, now
	if i.Outcome != gateway.Completed && i.Outcome != gateway.Late {
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

func (c *Collector) batch(i gateway.BatchInfo) {
	if i.Err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(i.Pipeline)
	p.Executed++
	d := p.sizes[i.Size]
	if d == nil {
		d = new(Duration)
		p.sizes[i.Size] = d
	}
	d.add(i.Compute)
}
