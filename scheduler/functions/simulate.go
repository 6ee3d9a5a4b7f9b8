package functions

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch/factory"
	"github.com/harpagon/harpagon/scheduler/dispatch/grouped"
	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/scheduler/simulate"
)

// SimulateOptions choose what is simulated.
type SimulateOptions struct {
	Duration time.Duration // of the arrivals
	Rate     float64       // requests per second of all applications, in proportion to the plan's; 0 as planned
	Seed     uint64

	// Steady makes every batch take its average latency, so that only the
	// arrivals are random. Otherwise latencies are drawn around the average, and
	// the maximum is their 99th percentile, cut off there.
	Steady bool

	// Record, where given, makes what keeps the steps of the dispatcher.
	Record func(station string) *recording.Recorder
}

// Simulated is what became of random requests under a plan.
type Simulated struct {
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
	Groups         []SimulatedGroup
}

// SimulatedGroup is the same of one group.
type SimulatedGroup struct {
	Requests       int
	Calls          int
	MeanBatch      float64
	Batch          int // that the plan expects
	CostPerRequest float64
	Predicted      float64
}

// Violations is the share of requests that missed their objective.
func (r Simulated) Violations() float64 {
	if r.Requests == 0 {
		return 0
	}
	return float64(r.Late+r.Dropped) / float64(r.Requests)
}

// Simulate sends Poisson arrivals of every application through dispatch policy
// grouped, runs the batches on as many functions as they need (package
// simulate), and bills them. The plan's model takes every batch for full; here
// it is as full as the arrivals make it.
func Simulate(p Problem, plan Plan, o SimulateOptions) (Simulated, error) {
	if plan.Status == Infeasible {
		return Simulated{}, fmt.Errorf("functions: an infeasible plan cannot be simulated: %s", plan.Reason)
	}
	spec := plan.dispatcher()
	policy, err := factory.New(spec)
	if err != nil {
		return Simulated{}, fmt.Errorf("functions: %w", err)
	}
	b := bill{problem: &p, plan: &plan, out: Simulated{Function: plan.Function, Policy: plan.Policy}}
	loads := b.loads(o)
	if o.Duration == 0 || len(loads) == 0 {
		return b.total(simulate.Result{Pipelines: make([]simulate.PipelineResult, len(loads))}), nil
	}
	r, err := simulate.OnExecutors(loads, plan.executors(&p, o.Steady), policy, simulate.Options{
		Duration: o.Duration, Seed: o.Seed, Observer: simulate.Observer{Batch: b.batch}, Record: o.Record, Spec: spec,
	})
	if err != nil {
		return Simulated{}, fmt.Errorf("functions: %w", err)
	}
	return b.total(r), nil
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

// dispatcher reports how to make the dispatcher. Plans of policy batch promise more than
// their functions keep; there the average latency stands in for the longest, so
// that requests run and are late, as they would be.
func (p Plan) dispatcher() factory.Spec {
	o := p.Dispatch()
	if !p.Sound {
		for i := range o.Groups {
			o.Groups[i].Duration = p.Groups[i].LatencyAvg
		}
	}
	return factory.Spec{Grouped: &o}
}

// executors are the functions of every group: as many as are called at once.
func (p Plan) executors(of *Problem, steady bool) []simulate.Executors {
	var all []simulate.Executors
	for i := range p.Groups {
		g := &p.Groups[i]
		e := simulate.Executors{Hardware: strconv.Itoa(i), Elastic: true}
		for n := 1; n <= g.Batch; n++ {
			avg, most := of.Latency(g.Offer, n)
			e.Durations, e.Longest = append(e.Durations, secondsUp(avg)), append(e.Longest, secondsUp(most))
		}
		if steady {
			e.Longest = nil
		}
		all = append(all, e)
	}
	return all
}

// bill counts batches and what the provider bills for them.
type bill struct {
	problem *Problem
	plan    *Plan
	out     Simulated
	shares  []Share // by class
	groupOf []int   // by class
	spent   []float64
	took    []time.Duration // latencies of answered requests
}

// loads are the arrivals of every application of every group, in the order of
// their classes.
func (b *bill) loads(o SimulateOptions) []simulate.Load {
	scale := 1.0
	if o.Rate > 0 && b.plan.Rate > 0 {
		scale = o.Rate / b.plan.Rate
	}
	var loads []simulate.Load
	b.spent = make([]float64, len(b.plan.Groups))
	for i, g := range b.plan.Groups {
		b.out.Groups = append(b.out.Groups, SimulatedGroup{Batch: g.Batch, Predicted: g.Cost})
		for _, a := range g.Applications {
			loads = append(loads, simulate.Load{
				Pipeline: pipelines.Pipeline{Name: strconv.Itoa(len(loads)), SLO: a.SLO, Modules: []pipelines.Module{{Name: b.plan.Function}}},
				Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Rate: a.Rate * scale,
			})
			b.shares, b.groupOf = append(b.shares, a), append(b.groupOf, i)
		}
	}
	return loads
}

// batch bills one that has been computed.
func (b *bill) batch(one simulate.Batch) {
	g := &b.plan.Groups[one.Group]
	_, money := Bill(&b.problem.Provider, g.Offer, one.End-one.Begin)
	b.spent[one.Group] += money
	b.out.Groups[one.Group].Calls++
	for _, r := range one.Requests {
		b.took = append(b.took, one.End-r.Ready)
		if one.Begin-r.Ready > b.shares[r.Load].Timeout {
			b.out.Overstayed++
		}
	}
}

// total sums up.
func (b *bill) total(r simulate.Result) Simulated {
	out := b.out
	for class, one := range r.Pipelines {
		out.Groups[b.groupOf[class]].Requests += int(one.Requests)
		out.Late += int(one.Late)
		out.Dropped += int(one.Dropped + one.Refused)
	}
	sum, weighted := 0.0, 0.0
	for i := range out.Groups {
		g := &out.Groups[i]
		out.Requests += g.Requests
		out.Calls += g.Calls
		sum += b.spent[i]
		weighted += g.Predicted * float64(g.Requests)
		if g.Requests > 0 {
			g.CostPerRequest = b.spent[i] / float64(g.Requests)
		}
		if g.Calls > 0 {
			g.MeanBatch = float64(g.Requests) / float64(g.Calls)
		}
	}
	out.Predicted = b.plan.CostPerRequest
	if out.Requests > 0 {
		out.CostPerRequest = sum / float64(out.Requests)
		out.Predicted = weighted / float64(out.Requests) // by the arrivals that came
	}
	slices.Sort(b.took)
	if n := len(b.took); n > 0 {
		out.P50, out.P99, out.Max = b.took[(n-1)/2], b.took[(n-1)*99/100], b.took[n-1]
	}
	if out.Calls > 0 {
		out.MeanBatch = float64(out.Requests) / float64(out.Calls)
	}
	return out
}
