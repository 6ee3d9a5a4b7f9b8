package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/scheduler/autoscale"
)

// The history of a service: a sample every so often, for ten minutes.
const (
	sampleEvery = 5 * time.Second
	samples     = 120
)

// sample is how a service did at a time.
type sample struct {
	offered    float64 // requests per second
	attainment float64
	p99        time.Duration
}

// history keeps the latest samples of every service.
type history struct {
	mu  sync.Mutex
	all map[string][]sample // oldest first
}

// watch samples until ctx ends.
func (h *history) watch(ctx context.Context, measures func() []autoscale.Measures) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.add(measures())
		case <-ctx.Done():
			return
		}
	}
}

// add takes a sample of what is served and forgets what is not.
func (h *history) add(all []autoscale.Measures) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := make(map[string][]sample, len(all))
	for _, m := range all {
		next[m.Pipeline] = push(h.all[m.Pipeline], sample{m.Offered, m.Attainment, m.Latency.P99})
	}
	h.all = next
}

func (h *history) of(service string) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all[service])
}

// push appends and keeps the latest.
func push[T any](all []T, x T) []T {
	all = append(all, x)
	if len(all) > samples {
		all = slices.Delete(all, 0, len(all)-samples)
	}
	return all
}
