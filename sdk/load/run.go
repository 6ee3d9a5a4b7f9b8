// Package load offers requests to a pipeline as the outside world would: open
// loop, at instants drawn beforehand, whether or not earlier requests have been
// answered.
//
// Latency counts from the instant at which a request was meant to be sent, so
// that a generator or server that stalls cannot hide it (no coordinated
// omission). A generator that falls far behind its own schedule leaves requests out and
// reports how many: the measured latencies then hold for the rate that it kept. Requests of
// the warm-up are sent but not counted. Attainment is the share of all counted requests
// that were answered within the objective; refusals, drops, errors and what was left out
// count against it.
//
// package arrivals draws the instants (pure, from a seed), Run sends, and Report holds
// what came of it, as data and as text.
package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/wire"
)

// maxInFlight bounds the requests that wait for an answer; beyond it the generator
// leaves requests out instead of piling up memory.
const maxInFlight = 20_000

// A request that would leave later than it was meant to, by this part of the objective
// and by leastLag, is left out: a generator that falls behind would measure its own
// queue, and take the processors that a server on the same machine needs.
const (
	lagShare = 4
	leastLag = 10 * time.Millisecond
)

// Send offers request number n and returns its answer.
type Send func(ctx context.Context, n int) (*wire.InferResponse, error)

// Options of a run.
type Options struct {
	Pipeline string
	SLO      time.Duration // attainment is counted against it
	Rate     float64       // requests per second
	Arrivals arrivals.Process
	Callers  int           // that each send the next request when they have their answer; 0 sends at Rate
	Duration time.Duration // counted part
	Warmup   time.Duration // sent before it, not counted
	Seed     uint64
	Timeout  time.Duration  // of one request; 0 means ten times SLO, at least 10 s
	Progress func(Progress) // called about once a second; may be nil
	// Sleep waits for the next instant; nil is osutil.Sleep, which is late by some 0.05 ms.
	// Its lateness is counted as latency.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Progress of a run under way.
type Progress struct {
	Elapsed, Total  time.Duration
	Sent, Completed int
	Late, Failed    int
}

// Run sends requests until the duration is over or ctx ends, waits for the
// answers that are still out, and reports. A run cut short by ctx reports what
// it has.
func Run(ctx context.Context, o Options, send Send) (*Report, error) {
	var instants []time.Duration
	if o.Callers == 0 {
		var err error
		if instants, err = o.Arrivals.Instants(o.Rate, o.Warmup+o.Duration, o.Seed); err != nil {
			return nil, err
		}
		if len(instants) == 0 {
			return nil, errors.New("load: no request falls into the run: raise the rate or the duration")
		}
	}
	if o.Timeout <= 0 {
		o.Timeout = max(10*o.SLO, 10*time.Second)
	}
	if o.Sleep == nil {
		o.Sleep = osutil.Sleep
	}
	r := &runner{o: o, send: send, start: time.Now(), counts: newCounts(o)}
	used := osutil.ProcessorTime()
	r.run(ctx, instants)
	report := r.counts.report(time.Since(r.start))
	if used > 0 && report.Elapsed > 0 {
		report.Cores, report.Most = float64(osutil.ProcessorTime()-used)/float64(report.Elapsed), osutil.MostProcessors()
	}
	return report, nil
}

type runner struct {
	o     Options
	send  Send
	start time.Time

	wg       sync.WaitGroup
	inFlight chan struct{}

	mu     sync.Mutex
	counts *counts
}

func (r *runner) run(ctx context.Context, instants []time.Duration) {
	r.inFlight = make(chan struct{}, maxInFlight)
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { watch(done, r.o.Progress, r.progress) })
	var next atomic.Int64
	for range r.o.Callers {
		r.wg.Go(func() { r.call(ctx, &next) })
	}
	for n, at := range instants {
		if !r.sleepUntil(ctx, r.start.Add(at)) {
			break
		}
		r.offer(ctx, n, at)
	}
	r.wg.Wait()
	close(done)
	watching.Wait()
}

// call sends one request after the other until the run is over.
func (r *runner) call(ctx context.Context, next *atomic.Int64) {
	for at := time.Since(r.start); at < r.o.Warmup+r.o.Duration && ctx.Err() == nil; at = time.Since(r.start) {
		r.ask(ctx, int(next.Add(1)-1), at, r.count(at))
	}
}

// sleepUntil reports false when ctx ends first.
func (r *runner) sleepUntil(ctx context.Context, when time.Time) bool {
	if wait := time.Until(when); wait > 0 {
		return r.o.Sleep(ctx, wait) == nil
	}
	return ctx.Err() == nil
}

// count counts a request that is due at that time of the run as sent; false in the warm-up.
func (r *runner) count(at time.Duration) bool {
	if at < r.o.Warmup {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.sent++
	return true
}

// offer sends request n without waiting for its answer.
func (r *runner) offer(ctx context.Context, n int, at time.Duration) {
	counted := r.count(at)
	select {
	case r.inFlight <- struct{}{}:
	default:
		r.leaveOut(counted)
		return
	}
	r.wg.Go(func() {
		defer func() { <-r.inFlight }()
		if time.Since(r.start.Add(at)) > max(leastLag, r.o.SLO/lagShare) {
			r.leaveOut(counted)
			return
		}
		r.ask(ctx, n, at, counted)
	})
}

// ask sends request n, which was due at that time of the run, and waits for its answer.
func (r *runner) ask(ctx context.Context, n int, at time.Duration, counted bool) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	resp, err := r.send(ctx, n)
	r.record(counted, time.Since(r.start.Add(at)), resp, err)
}

// leaveOut counts a request as not sent.
func (r *runner) leaveOut(counted bool) {
	if !counted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.sent--
	r.counts.unsent++
}

func (r *runner) record(counted bool, latency time.Duration, resp *wire.InferResponse, err error) {
	if !counted {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.add(latency, resp, err)
}

func (r *runner) progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Progress{
		Elapsed: time.Since(r.start), Total: r.o.Warmup + r.o.Duration,
		Sent: r.counts.sent, Completed: r.counts.answered,
		Late: r.counts.late, Failed: r.counts.failed(),
	}
}

// watch reports the progress about once a second until it is done; report may be nil.
func watch(done <-chan struct{}, report func(Progress), progress func() Progress) {
	if report == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			report(progress())
		}
	}
}
