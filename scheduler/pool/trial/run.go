package trial

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
)

const never = time.Duration(math.MaxInt64)

// run is one play of a load.
type run struct {
	pool    Pool
	policy  dispatch.Policy
	load    Load
	rate    float64
	latency [][]time.Duration
	noise   *rand.Rand

	now     time.Duration
	timer   time.Duration
	frees   []free          // a heap, the next one first
	busy    []time.Duration // by type
	group   []int32         // by executor
	actions []dispatch.Action
	result  Result

	allowed   int             // failures; beyond it the run stops
	latencies []time.Duration // of a run that is not cut short
}

type free struct {
	at       time.Duration
	executor dispatch.ExecutorID
	query    int32
}

// Run plays the load against the pool at rate queries per second.
func Run(p Pool, policy dispatch.Policy, load Load, rate float64) Result {
	return play(p, policy, load, rate, load.Len())
}

// play is Run that stops once more than allowed queries have failed.
func play(p Pool, policy dispatch.Policy, load Load, rate float64, allowed int) Result {
	largest := int32(0)
	for _, s := range load.sizes {
		largest = max(largest, s)
	}
	r := &run{
		pool: p, policy: policy, load: load, rate: rate, timer: never, latency: p.table(largest),
		busy: make([]time.Duration, len(p.Types)), allowed: allowed,
		noise:  rand.New(rand.NewPCG(uint64(load.Len()), 1)),
		result: Result{Rate: rate, Requests: load.Len()},
	}
	for g, n := range p.Counts {
		for range n {
			id := dispatch.ExecutorID(len(r.group))
			r.group = append(r.group, int32(g))
			r.step(dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: int32(g)})
		}
	}
	r.arrivals()
	return r.finish()
}

// arrivals brings the queries in, and what happens between them.
func (r *run) arrivals() {
	for i := range r.load.sizes {
		at := r.load.arrival(i, r.rate)
		r.until(at)
		r.now = at
		r.step(dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{
			ID: dispatch.RequestID(i), Size: r.load.sizes[i], Arrival: at, Deadline: at + r.pool.SLO,
		}})
		if r.result.Late+r.result.Dropped > r.allowed {
			return
		}
	}
	r.until(never - 1)
}

// until plays what happens up to and including an instant.
func (r *run) until(end time.Duration) {
	for {
		next := r.timer
		if len(r.frees) > 0 {
			next = min(next, r.frees[0].at)
		}
		if next > end || r.result.Late+r.result.Dropped > r.allowed {
			return
		}
		r.now = max(r.now, next)
		if len(r.frees) > 0 && r.frees[0].at <= next {
			r.complete(r.pop())
			continue
		}
		r.timer = never
		r.step(dispatch.Event{Kind: dispatch.Timer})
	}
}

func (r *run) complete(f free) {
	took := r.now - r.load.arrival(int(f.query), r.rate)
	if took <= r.pool.SLO {
		r.result.Completed++
	} else {
		r.result.Late++
	}
	if r.allowed >= r.load.Len() {
		r.latencies = append(r.latencies, took)
	}
	r.step(dispatch.Event{Kind: dispatch.ExecutorFree, Executor: f.executor})
}

func (r *run) step(ev dispatch.Event) {
	r.actions = r.policy.Step(r.now, ev, r.actions[:0])
	for _, a := range r.actions {
		switch a.Act {
		case dispatch.Start:
			r.start(a.Executor, int32(a.Batch[0]))
		case dispatch.Drop:
			r.result.Dropped++
		case dispatch.SetTimer:
			r.timer = max(a.At, r.now)
		}
	}
}

func (r *run) start(id dispatch.ExecutorID, query int32) {
	group := r.group[id]
	took := r.latency[group][r.load.sizes[query]]
	if r.pool.Noise > 0 {
		took = max(1, time.Duration(float64(took)*(1+r.pool.Noise*r.noise.NormFloat64())))
	}
	r.busy[group] += took
	r.push(free{at: r.now + took, executor: id, query: query})
}

func (r *run) finish() Result {
	span := r.now.Seconds()
	for g, n := range r.pool.Counts {
		share := 0.0
		if n > 0 && span > 0 {
			share = r.busy[g].Seconds() / span / float64(n)
		}
		r.result.Busy = append(r.result.Busy, share)
	}
	if n := len(r.latencies); n > 0 {
		slices.Sort(r.latencies)
		at := func(share float64) time.Duration { return r.latencies[int(math.Ceil(share*float64(n)))-1] }
		r.result.P50, r.result.P99, r.result.Max = at(0.5), at(0.99), at(1)
	}
	return r.result
}

// push and pop keep frees a heap by time, then by executor.

func (r *run) push(f free) {
	r.frees = append(r.frees, f)
	for i := len(r.frees) - 1; i > 0; {
		up := (i - 1) / 2
		if !sooner(r.frees[i], r.frees[up]) {
			return
		}
		r.frees[i], r.frees[up] = r.frees[up], r.frees[i]
		i = up
	}
}

func (r *run) pop() free {
	first, last := r.frees[0], len(r.frees)-1
	r.frees[0] = r.frees[last]
	r.frees = r.frees[:last]
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			return first
		}
		if next+1 < last && sooner(r.frees[next+1], r.frees[next]) {
			next++
		}
		if !sooner(r.frees[next], r.frees[i]) {
			return first
		}
		r.frees[i], r.frees[next] = r.frees[next], r.frees[i]
		i = next
	}
}

func sooner(a, b free) bool { return a.at < b.at || a.at == b.at && a.executor < b.executor }
