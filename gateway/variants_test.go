package gateway

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

const (
	loadTime = 2 * time.Second // of a new executor
	tellTime = 5 * time.Second // between two measures, as gateways report them
)

// degrading keeps a pipeline with variants running on two devices as its workflow does:
// what the gateway measures goes to the detector, what that advises to Solve, and the plan
// to the gateway, with new executors before old ones go.
type degrading struct {
	t          *testing.T
	g          *Gateway
	spec       scheduler.Spec
	drift      autoscale.Drift
	answered   autoscale.Answered
	plan       plan.Plan
	slots      []placement.Slot
	workers    map[string]*worker
	generation int
	byVariant  [2]atomic.Int64 // answers of the module's own network, and of its variant
}

// sortedOut is a pipeline with a variant that takes a fifth of the time.
func sortedOut(rate float64) scheduler.Spec {
	profile := func(one time.Duration) pipelines.Profile {
		return pipelines.Profile{Points: []pipelines.Point{
			{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: one}, {Hardware: "gpu", Batch: 4, Concurrency: 1, Duration: 3 * one},
		}}
	}
	p := single(400 * ms)
	p.Rate, p.Accuracy, p.Plan.CostModel = rate, 0.7, "whole"
	m := &p.Modules[0]
	m.Fanout, m.Accuracy, m.Profile = 1, 0.78, profile(20*ms)
	m.Variants = []pipelines.Variant{{Name: "small", Accuracy: 0.7, Profile: profile(4 * ms)}}
	return scheduler.Spec{Pipeline: &p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1, Count: 2}}}
}

func (s *degrading) reschedule() {
	all := scheduler.Solve([]scheduler.Spec{s.spec}, scheduler.Fleet{}, scheduler.Limits{})[0]
	if all.Reason() != "" {
		all = scheduler.Relieve(s.spec, scheduler.Fleet{}, scheduler.Limits{}, all)
	}
	require.Empty(s.t, all.Reason())
	s.generation++
	d := s.spec.Deploy(s.generation, all)
	module := d.Pipeline.Module("m")
	placed, err := placement.Place(placement.Request{
		Pipeline: d.Pipeline, Plan: d.Plan, Actual: s.slots,
		Devices: []placement.Device{{Host: "h", Name: "gpu/0", Hardware: "gpu"}, {Host: "h", Name: "gpu/1", Hardware: "gpu"}},
		Engines: map[string]placement.ModuleEngine{"m": {Engine: "test", Model: "network " + module.Variant}},
	})
	require.NoError(s.t, err)
	d.Slots = placed.Slots
	changes := placement.Reconcile(d.Slots, s.slots)
	if len(changes.Start) > 0 {
		time.Sleep(loadTime)
	}
	for _, slot := range changes.Start {
		s.workers[slot.Executor] = s.start(module, slot)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(s.t, s.g.Prepare(ctx, d))
	require.NoError(s.t, s.g.Install(ctx, d))
	var old []string
	for _, slot := range changes.Stop {
		old = append(old, slot.Executor)
	}
	require.NoError(s.t, s.g.Release(ctx, "p", old))
	s.plan, s.slots = d.Plan, d.Slots
	now := time.Now()
	base := s.drift.Base(s.spec.Pipeline.Rate)
	s.drift = autoscale.NewDrift(base, autoscale.DriftOptions{}.For(s.spec.Pipeline, s.spec.Hardware))
	s.drift.Reset(base, now)
}

// start attaches an executor of the network that the module runs.
func (s *degrading) start(module *pipelines.Module, slot placement.Slot) *worker {
	count := &s.byVariant[0]
	if module.Variant == "small" {
		count = &s.byVariant[1]
	}
	profile := module.Profile.Points
	w := &worker{kind: kind{sig: addOne.sig, run: func(in []wire.Tensor) []wire.Tensor {
		count.Add(1)
		return addOne.run(in)
	}}, delay: func(n int) time.Duration {
		return profile[slices.IndexFunc(profile, func(at pipelines.Point) bool { return at.Batch >= n })].Duration
	}}
	w.hello = attach.Hello{Executor: slot.Executor, Pipeline: slot.Pipeline, Module: slot.Module, Host: slot.Host, MaxBatch: slot.Batch, Concurrency: 1}
	w.attach(s.g)
	return w
}

// watch follows the measures until the test ends, and records when which variant serves.
func (s *degrading) watch(done <-chan struct{}) {
	begin := time.Now()
	for {
		select {
		case <-done:
			return
		case <-time.After(tellTime):
		}
		m := s.g.Measures("p")
		s.answered.Observe(m, &s.plan, s.generation)
		if advice := s.drift.Observe(m); advice.Reschedule {
			p := *s.spec.Pipeline
			p.Rate = advice.Wanted()
			s.spec.Pipeline = &p
			s.reschedule()
			s.t.Logf("%4.0f s: %s: %s", time.Since(begin).Seconds(), advice.Describe(), s.plan.Variants[0].Variant)
		}
	}
}

// ended is how the requests of a phase ended.
type ended struct{ good, late, refused, dropped, other atomic.Int64 }

// drive offers requests at a rate that goes straight from one to the other in the span.
func drive(g *Gateway, from, to float64, span time.Duration, group *sync.WaitGroup) *ended {
	e := new(ended)
	for due := 0.0; due < span.Seconds(); {
		rate := from + (to-from)*due/span.Seconds()
		group.Go(func() {
			begin := time.Now()
			switch _, err := ask(context.Background(), g); {
			case err == nil && time.Since(begin) <= 400*ms:
				e.good.Add(1)
			case err == nil:
				e.late.Add(1)
			case err.Code == wire.CodeOverloaded:
				e.refused.Add(1)
			case err.Code == wire.CodeDeadline:
				e.dropped.Add(1)
			default:
				e.other.Add(1)
			}
		})
		time.Sleep(time.Duration(math.Round(1e9 / rate)))
		due += 1 / rate
	}
	return e
}

func (e *ended) lost() int64 {
	return e.late.Load() + e.refused.Load() + e.dropped.Load() + e.other.Load()
}

func (e *ended) String() string {
	return fmt.Sprintf("%d in time, %d late, %d refused, %d dropped, %d otherwise", e.good.Load(), e.late.Load(), e.refused.Load(), e.dropped.Load(), e.other.Load())
}

// degrade runs phases of load against a pipeline that degrades.
func degrade(t *testing.T, variants bool, phases func(g *Gateway, group *sync.WaitGroup, serves func() string)) *degrading {
	s := &degrading{t: t, g: recorded(t, Options{}), spec: sortedOut(80), workers: map[string]*worker{}}
	if !variants {
		s.spec.Pipeline.Modules[0].Variants, s.spec.Pipeline.Accuracy = nil, 0
	}
	s.reschedule()
	done, over := make(chan struct{}), make(chan struct{})
	if variants {
		go func() { defer close(over); s.watch(done) }()
	} else {
		close(over)
	}
	var group sync.WaitGroup
	phases(s.g, &group, func() string { return s.plan.Variants[0].Variant })
	group.Wait()
	close(done)
	<-over
	counts := s.g.Totals("p")
	sum := int64(0)
	for _, n := range counts {
		sum += n
	}
	t.Logf("own %d, small %d; %s%v of %d", s.byVariant[0].Load(), s.byVariant[1].Load(), s.answered.Describe(), counts, sum)
	stop(s.g, s.workers)
	time.Sleep(time.Minute)
	return s
}

// A load that rises beyond what the accurate network can carry on two devices is taken over
// by the variant before a request is lost, and given back when it falls.
func TestDegradesBeforeItDropsAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := int64(0)
		s := degrade(t, true, func(g *Gateway, group *sync.WaitGroup, serves func() string) {
			for _, phase := range []struct {
				from, to float64
				span     time.Duration
				serves   string
			}{
				{60, 60, 60 * time.Second, "own"}, {60, 240, 3 * time.Minute, "small"}, {240, 240, time.Minute, "small"},
				{240, 60, time.Minute, ""}, {60, 60, time.Minute, "own"},
			} {
				e := drive(g, phase.from, phase.to, phase.span, group)
				time.Sleep(time.Second)
				t.Logf("%v to %v/s: %s", phase.from, phase.to, e)
				assert.Zero(t, e.lost(), "%v to %v/s: %s", phase.from, phase.to, e)
				if phase.serves != "" {
					assert.Equal(t, phase.serves, serves())
				}
				sent += e.good.Load()
			}
		})
		sum := int64(0)
		for _, n := range s.g.Totals("p") {
			sum += n
		}
		require.Equal(t, sent, sum, "every request has one outcome")
		require.Equal(t, sent, s.byVariant[0].Load()+s.byVariant[1].Load(), "and was computed once")
		require.InDelta(t, float64(s.byVariant[1].Load()), s.answered.Requests["m=small"], 0.1*float64(sent))
	})
}

// An unpredictable step costs requests until the variant is there; then nothing is lost, where
// without variants most of the rest would be.
func TestAStepIsFeltUntilTheVariantServes(t *testing.T) {
	lost := map[bool][2]int64{}
	for _, variants := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var all [2]int64
			degrade(t, variants, func(g *Gateway, group *sync.WaitGroup, serves func() string) {
				drive(g, 60, 60, 30*time.Second, group)
				first := drive(g, 240, 240, 20*time.Second, group)
				rest := drive(g, 240, 240, 60*time.Second, group)
				time.Sleep(time.Second)
				all = [2]int64{first.lost(), rest.lost()}
				t.Logf("variants %v: first 20 s: %s; the minute after: %s", variants, first, rest)
			})
			lost[variants] = all
		})
	}
	require.Zero(t, lost[true][1])
	require.Less(t, 2*lost[true][0], int64(240*20), "for half of the time at the most")
	require.Greater(t, lost[false][1], int64(240*60/3))
}
