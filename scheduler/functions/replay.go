package functions

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
)

// ReplayOptions choose what is replayed.
type ReplayOptions struct {
	Duration time.Duration // of the arrivals
	Rate     float64       // requests per second of all applications, in proportion to the plan's; 0 as planned
	Seed     uint64

	// Steady makes every batch take its average latency, so that only the
	// arrivals are random. Otherwise latencies are drawn around the average, and
	// the maximum is their 99th percentile, cut off there.
	Steady bool
}

// Replayed is what became of random requests under a plan.
type Replayed struct {
	Function   string
	Policy     string
	Requests   int
	Late       int // answered after their objective
	Dropped    int // given up because they could only be late
	Calls      int // invocations
	MeanBatch  float64
	Overstayed int // requests that waited longer than their own timeout

	P50, P99, Max time.Duration // latencies of the requests that were answered

	CostPerRequest float64 // as the provider would bill it
	Predicted      float64 // by the plan
	Groups         []ReplayedGroup
}

// ReplayedGroup is the same of one group.
type ReplayedGroup struct {
	Requests       int
	Calls          int
	MeanBatch      float64
	Batch          int // that the plan expects
	CostPerRequest float64
	Predicted      float64
}

// Violations is the share of requests that missed their objective.
func (r Replayed) Violations() float64 {
	if r.Requests == 0 {
		return 0
	}
	return float64(r.Late+r.Dropped) / float64(r.Requests)
}

// latencyQuantile is how many standard deviations the maximum latency lies above
// the average: the 99th percentile of a normal distribution, as in the authors'
// program.
const latencyQuantile = 2.33

// Replay sends Poisson arrivals of every application through dispatch policy
// grouped, runs the batches on as many functions as they need, and bills them.
// The plan's model takes every batch for full; here it is as full as the
// arrivals make it.
func Replay(p Problem, plan Plan, o ReplayOptions) (Replayed, error) {
	if plan.Status == Infeasible {
		return Replayed{}, fmt.Errorf("functions: an infeasible plan cannot be replayed: %s", plan.Reason)
	}
	r := &replay{problem: p, plan: plan, options: o, noise: rand.New(rand.NewPCG(o.Seed, math.MaxUint64))}
	policy, err := r.policy()
	if err != nil {
		return Replayed{}, err
	}
	r.policyState = policy
	r.run()
	return r.result(), nil
}

// Dispatch is the configuration of policy grouped that carries the plan out.
// The class of a request is its application's place in the plan, counted over
// all groups.
func (p Plan) Dispatch() grouped.Options {
	var o grouped.Options
	class := int32(0)
	for _, g := range p.Groups {
		f := grouped.Group{Batch: g.Batch, Duration: g.LatencyMax}
		for _, a := range g.Applications {
			f.Applications = append(f.Applications, grouped.Application{Class: class, Timeout: a.Timeout, SLO: a.SLO})
			class++
		}
		o.Groups = append(o.Groups, f)
	}
	return o
}

// replay drives one policy on a virtual clock.
type replay struct {
	problem     Problem
	plan        Plan
	options     ReplayOptions
	policyState dispatch.Policy
	noise       *rand.Rand

	events  events
	timer   dispatch.Time
	sources []source // by class
	flights map[dispatch.RequestID]flight
	idle    []int   // executors by group
	groupOf []int32 // by executor
	actions []dispatch.Action
	counts  []ReplayedGroup
	spent   []float64
	totals  Replayed
	waits   []time.Duration // latencies of answered requests
}

type source struct {
	share Share
	group int32
	rand  *rand.Rand
}

type flight struct {
	class   int32
	arrived dispatch.Time
}

// policy builds the dispatcher. Plans of policy batch promise more than their
// functions keep; there the average latency stands in, so that requests run and
// are late, as they would be.
func (r *replay) policy() (dispatch.Policy, error) {
	o := r.plan.Dispatch()
	if !r.plan.Sound {
		for i := range o.Groups {
			o.Groups[i].Duration = r.plan.Groups[i].LatencyAvg
		}
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("functions: %w", err)
	}
	return grouped.New(o), nil
}

func (r *replay) run() {
	r.timer = math.MaxInt64
	r.flights = map[dispatch.RequestID]flight{}
	r.idle = make([]int, len(r.plan.Groups))
	r.counts = make([]ReplayedGroup, len(r.plan.Groups))
	r.spent = make([]float64, len(r.plan.Groups))
	scale := 1.0
	if r.options.Rate > 0 && r.plan.Rate > 0 {
		scale = r.options.Rate / r.plan.Rate
	}
	for i, g := range r.plan.Groups {
		r.counts[i] = ReplayedGroup{Batch: g.Batch, Predicted: g.Cost}
		for _, a := range g.Applications {
			a.Rate *= scale
			s := source{share: a, group: int32(i), rand: rand.New(rand.NewPCG(r.options.Seed, uint64(len(r.sources))))}
			r.sources = append(r.sources, s)
			r.arriveAfter(int32(len(r.sources)-1), 0)
		}
		r.spare(int32(i), 0)
	}
	id := dispatch.RequestID(0)
	for len(r.events) > 0 || r.timer != math.MaxInt64 {
		if len(r.events) == 0 || r.timer < r.events[0].at {
			now := r.timer
			r.timer = math.MaxInt64
			r.step(now, dispatch.Event{Kind: dispatch.Timer})
			continue
		}
		e := heap.Pop(&r.events).(event)
		if e.executor >= 0 {
			r.idle[r.groupOf[e.executor]]++
			r.step(e.at, dispatch.Event{Kind: dispatch.ExecutorFree, Executor: dispatch.ExecutorID(e.executor)})
			continue
		}
		id++
		r.arriveAfter(e.class, e.at)
		r.flights[id] = flight{e.class, e.at}
		r.counts[r.sources[e.class].group].Requests++
		r.step(e.at, dispatch.Event{Kind: dispatch.Arrive, Request: dispatch.Request{ID: id, Class: e.class, Arrival: e.at}})
	}
}

// arriveAfter draws the next request of a source.
func (r *replay) arriveAfter(class int32, now dispatch.Time) {
	s := &r.sources[class]
	if s.share.Rate == 0 {
		return
	}
	gap := s.rand.ExpFloat64() / s.share.Rate * float64(time.Second)
	if next := float64(now) + gap; next <= float64(r.options.Duration) {
		heap.Push(&r.events, event{at: dispatch.Time(next), executor: -1, class: class})
	}
}

// spare keeps one function of every group ready: a provider starts as many as
// are called.
func (r *replay) spare(group int32, now dispatch.Time) {
	if r.idle[group] > 0 {
		return
	}
	r.idle[group]++
	id := dispatch.ExecutorID(len(r.groupOf))
	r.groupOf = append(r.groupOf, group)
	r.step(now, dispatch.Event{Kind: dispatch.ExecutorUp, Executor: id, Group: group})
}

func (r *replay) step(now dispatch.Time, ev dispatch.Event) {
	used := int32(-1)
	r.actions = r.policyState.Step(now, ev, r.actions[:0])
	var wanting []int32
	for _, a := range r.actions {
		switch a.Act {
		case dispatch.SetTimer:
			r.timer = a.At
		case dispatch.Drop:
			delete(r.flights, a.Request)
			r.totals.Dropped++
		case dispatch.Start:
			r.start(now, a)
			if a.Group != used {
				wanting, used = append(wanting, a.Group), a.Group
			}
		}
	}
	for _, g := range wanting {
		r.spare(g, now)
	}
}

// start runs a batch and bills it.
func (r *replay) start(now dispatch.Time, a dispatch.Action) {
	r.idle[a.Group]--
	seconds := r.latency(a.Group, len(a.Batch))
	done := now + secondsUp(seconds)
	heap.Push(&r.events, event{at: done, executor: int(a.Executor)})
	g := &r.plan.Groups[a.Group]
	r.spent[a.Group] += billed(&r.problem.Provider, seconds)*g.PerSecond(&r.problem.Provider) + r.problem.Provider.Invocation
	r.counts[a.Group].Calls++
	for _, id := range a.Batch {
		f := r.flights[id]
		delete(r.flights, id)
		share := &r.sources[f.class].share
		r.waits = append(r.waits, done-f.arrived)
		if done-f.arrived > share.SLO {
			r.totals.Late++
		}
		if now-f.arrived > share.Timeout {
			r.totals.Overstayed++
		}
	}
}

// latency of a batch of n on a function of the group, in seconds.
func (r *replay) latency(group int32, n int) float64 {
	g := &r.plan.Groups[group]
	avg, most := r.problem.Latency(g.Offer, n)
	if r.options.Steady {
		return avg
	}
	return Draw(r.noise, avg, most)
}

// Draw is a latency around the average: the maximum is its 99th percentile, and
// none exceeds that.
func Draw(noise *rand.Rand, avg, most float64) float64 {
	if most <= avg {
		return avg
	}
	for {
		z := noise.NormFloat64()
		if x := avg + z*(most-avg)/latencyQuantile; math.Abs(z) <= latencyQuantile && x > 0 {
			return x
		}
	}
}

func (r *replay) result() Replayed {
	out := r.totals
	out.Function, out.Policy, out.Predicted = r.plan.Function, r.plan.Policy, r.plan.CostPerRequest
	sum, weighted := 0.0, 0.0
	for i, g := range r.counts {
		out.Requests += g.Requests
		out.Calls += g.Calls
		sum += r.spent[i]
		weighted += g.Predicted * float64(g.Requests)
		if g.Requests > 0 {
			g.CostPerRequest = r.spent[i] / float64(g.Requests)
		}
		if g.Calls > 0 {
			g.MeanBatch = float64(g.Requests) / float64(g.Calls)
		}
		out.Groups = append(out.Groups, g)
	}
	if out.Requests > 0 {
		out.CostPerRequest = sum / float64(out.Requests)
		out.Predicted = weighted / float64(out.Requests) // by the arrivals that came
	}
	slices.Sort(r.waits)
	if n := len(r.waits); n > 0 {
		out.P50, out.P99, out.Max = r.waits[(n-1)/2], r.waits[(n-1)*99/100], r.waits[n-1]
	}
	if out.Calls > 0 {
		out.MeanBatch = float64(out.Requests) / float64(out.Calls)
	}
	return out
}
