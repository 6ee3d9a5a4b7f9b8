package console

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/dispatch/admission"
	"github.com/harpagon/harpagon/wire/overlay"
	"github.com/harpagon/harpagon/workflows"
)

// Source is where a console reads from. Its functions are called one at a time.
type Source struct {
	// Services are all that run, in order of name, as their workflows report them.
	Services func(context.Context) ([]workflows.Status, error)

	// Devices are those of all hosts.
	Devices func(context.Context) ([]devices.Reading, error)

	// Measures is what this gateway saw lately of every service that it serves.
	Measures func() []autoscale.Measures

	// Streams are those of a pipeline that are open at this gateway and attain least, so many at the
	// most; nil where the source has no streams.
	Streams func(name string, most int) []admission.StreamLine

	// Frame is the last frame of a stream of a pipeline, by the ID of its line, kept while it has viewers;
	// the zero Frame where none has come since. Not ok where it may not be shown. Nil shows none.
	Frame func(name, stream string) (overlay.Frame, bool)

	// Pipeline is the declaration that serves under a name.
	Pipeline func(name string) (pipelines.Pipeline, bool)
}

// snapshot is everything that pages show, read at one time.
type snapshot struct {
	at       time.Time
	services []workflows.Status
	measures map[string]autoscale.Measures
	devices  []device
	problem  string    // why plans and devices are not as of now; empty when they are
	known    time.Time // when they were read
}

// device is a device and how busy it was between the last two readings.
type device struct {
	devices.Reading
	busy    float64 // share of one; several executors may take more together
	history []float64
}

// fresh is the highest age of a snapshot that pages share, and patience how long Temporal may
// take to answer before a page goes on without.
const (
	fresh    = 900 * time.Millisecond
	patience = 2 * time.Second
)

// reader reads snapshots for all pages together.
type reader struct {
	source Source
	now    func() time.Time

	mu   sync.Mutex
	last snapshot
	busy map[string]busyness // by host and device
}

// busyness is what a device had done at a time.
type busyness struct {
	at      time.Time
	busy    time.Duration
	history []float64
}

func (r *reader) read(ctx context.Context) snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if now.Sub(r.last.at) < fresh {
		return r.last
	}
	s := snapshot{at: now, services: r.last.services, devices: r.last.devices, known: r.last.known, measures: map[string]autoscale.Measures{}}
	for _, m := range r.source.Measures() {
		s.measures[m.Pipeline] = m
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	services, err := r.source.Services(ctx)
	if err == nil {
		var all []devices.Reading
		if all, err = r.source.Devices(ctx); err == nil {
			s.services, s.devices, s.known = services, r.follow(now, all), now
		}
	}
	if err != nil {
		s.problem = err.Error()
	}
	r.last = s
	return s
}

// follow reports how busy devices were since they were read before.
func (r *reader) follow(now time.Time, all []devices.Reading) []device {
	next, out := map[string]busyness{}, make([]device, 0, len(all))
	for _, d := range all {
		key := d.Host + "/" + d.Device
		b, known := r.busy[key]
		if span := now.Sub(b.at); known && d.Busy >= b.busy && d.Busy != b.busy {
			b.history = push(b.history, float64(d.Busy-b.busy)/float64(span))
			b.at, b.busy = now, d.Busy
		} else if known && span > heartbeat {
			b.history = push(b.history, 0)
			b.at, b.busy = now, d.Busy
		} else if !known {
			b = busyness{at: now, busy: d.Busy}
		}
		next[key] = b
		one := device{Reading: d, history: b.history}
		if n := len(b.history); n > 0 {
			one.busy = b.history[n-1]
		}
		out = append(out, one)
	}
	r.busy = next
	return out
}

// heartbeat is longer than hosts wait between two readings: a device whose reading has not
// changed for that long was idle.
const heartbeat = 12 * time.Second

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
