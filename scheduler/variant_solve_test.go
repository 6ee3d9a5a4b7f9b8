package scheduler_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// network is a profile on the one kind of hardware of these tests: batches of 1 and 8.
func network(one, eight time.Duration) pipelines.Profile {
	return pipelines.Profile{Points: []pipelines.Point{
		{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: one},
		{Hardware: "gpu", Batch: 8, Concurrency: 1, Duration: eight},
	}}
}

// varied is a pipeline of two modules in a row, the first with two variants, the second
// with one.
func varied(rate float64) *pipelines.Pipeline {
	const ms = time.Millisecond
	return &pipelines.Pipeline{
		Name: "p", SLO: 400 * ms, Rate: rate, Plan: pipelines.Planning{CostModel: "whole"},
		Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{4}}},
		Modules: []pipelines.Module{
			{
				Name: "detect", Fanout: 1, Accuracy: 0.9, Profile: network(20*ms, 100*ms), Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}},
				Variants: []pipelines.Variant{
					{Name: "small", Accuracy: 0.8, Profile: network(10*ms, 50*ms)},
					{Name: "tiny", Accuracy: 0.6, Profile: network(4*ms, 16*ms)},
				},
			},
			{
				Name: "label", Fanout: 1, Accuracy: 0.95, Profile: network(10*ms, 40*ms), Inputs: []pipelines.Binding{{Name: "y", From: pipelines.Ref{Module: "detect", Port: "y"}}},
				Variants: []pipelines.Variant{{Name: "small", Accuracy: 0.9, Profile: network(5*ms, 20*ms)}},
			},
		},
		Outputs: []pipelines.Output{{Name: "z", From: pipelines.Ref{Module: "label", Port: "z"}}},
	}
}

func gpus(count int) []pipelines.Hardware {
	return []pipelines.Hardware{{Name: "gpu", Price: 1, Count: count}}
}

func solveOne(p *pipelines.Pipeline, hardware []pipelines.Hardware) plan.Plan {
	return *scheduler.Solve([]scheduler.Spec{{Pipeline: p, Hardware: hardware}}, scheduler.Fleet{}, scheduler.Limits{})[0].Pipeline
}

// without is the pipeline with no variants but those that it runs.
func without(p pipelines.Pipeline) *pipelines.Pipeline {
	p.Modules = slices.Clone(p.Modules)
	for i := range p.Modules {
		p.Modules[i].Variants = nil
	}
	p.Accuracy = 0
	return &p
}

// drawVaried draws a small pipeline whose modules have variants, some of them faster and
// less accurate, some worse in all, some better.
func drawVaried(t *rapid.T, name string) *pipelines.Pipeline {
	p := varied(rapid.Float64Range(1, 120).Draw(t, name+" rate"))
	p.Name = name
	p.SLO = time.Duration(rapid.IntRange(60, 800).Draw(t, name+" slo")) * time.Millisecond
	p.Plan.CostModel = rapid.SampledFrom(pipelines.CostModels()).Draw(t, name+" cost model")
	draw := func(of string) (pipelines.Profile, float64) {
		one := rapid.IntRange(1, 40).Draw(t, of+" ms")
		eight := one * rapid.IntRange(1, 8).Draw(t, of+" grows")
		return network(time.Duration(one)*time.Millisecond, time.Duration(eight)*time.Millisecond), float64(rapid.IntRange(50, 100).Draw(t, of+" accuracy")) / 100
	}
	for i := range p.Modules {
		m := &p.Modules[i]
		m.Profile, m.Accuracy = draw(name + m.Name)
		m.Variants = m.Variants[:rapid.IntRange(0, len(m.Variants)).Draw(t, name+m.Name+" variants")]
		for k := range m.Variants {
			m.Variants[k].Profile, m.Variants[k].Accuracy = draw(name + m.Name + m.Variants[k].Name)
		}
	}
	return p
}

// A plan with variants is never dearer than the plan without, where that is accurate
// enough, and never less accurate than the floor.
func TestVariantsCostNoMoreAndKeepTheFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawVaried(t, "p")
		own := solveOne(without(*p), gpus(0))
		p.Accuracy = rapid.SampledFrom([]float64{0, 0.5, 0.7, p.Right()}).Draw(t, "floor")
		got := solveOne(p, gpus(0))
		if own.Status != plan.Infeasible && p.Right() >= p.Accuracy {
			require.NotEqual(t, plan.Infeasible, got.Status, got.Reason)
			assert.LessOrEqual(t, got.Cost, own.Cost*(1+1e-9))
		}
		if got.Status != plan.Infeasible && p.Varied() {
			assert.GreaterOrEqual(t, got.Accuracy, p.Accuracy*(1-1e-9))
			as := plan.AsServed(*p, got.Variants)
			assert.InDelta(t, as.Right(), got.Accuracy, 1e-12)
			again := solveOne(without(as), gpus(0))
			assert.InDelta(t, again.Cost, got.Cost, 1e-9, "a plan with variants is the plan of the pipeline that they make")
		}
	})
}

// Where no variant is as accurate as the module's own network, a floor at the accuracy of
// these leaves the plan that it is without variants.
func TestAFloorAtTheOwnAccuracyChangesNoPlan(t *testing.T) {
	for _, rate := range []float64{5, 30, 90, 200} {
		p := varied(rate)
		p.Accuracy = p.Right()
		got, own := solveOne(p, gpus(0)), solveOne(without(*p), gpus(0))
		assert.InDelta(t, 0.855, got.Accuracy, 1e-9)
		got.Accuracy, got.Variants = 0, nil
		assert.Equal(t, own, got)
	}
}

// brute tries all combinations in its own order, without ChooseVariants.
func brute(p *pipelines.Pipeline, hardware []pipelines.Hardware) (cost, accuracy float64, found bool) {
	cost, accuracy = math.Inf(1), 0
	var try func(p pipelines.Pipeline, module int)
	try = func(at pipelines.Pipeline, module int) {
		if module < len(at.Modules) {
			names := []string{""}
			for _, v := range p.Modules[module].Variants {
				names = append(names, v.Name)
			}
			for _, name := range names {
				try(at.As(map[string]string{at.Modules[module].Name: name}), module+1)
			}
			return
		}
		right := 1.0
		for _, m := range at.Modules {
			right *= m.Accuracy
		}
		q := solveOne(without(at), hardware)
		if q.Status == plan.Infeasible || right < p.Accuracy-1e-9 {
			return
		}
		found = true
		if hardware[0].Count > 0 { // fixed: the most accurate, and of these the cheapest
			if right > accuracy+1e-9 || right > accuracy-1e-9 && q.Cost < cost {
				cost, accuracy = q.Cost, right
			}
		} else if q.Cost < cost-1e-9 {
			cost, accuracy = q.Cost, right
		}
	}
	try(*p, 0)
	return cost, accuracy, found
}

func TestVariantsAreThoseOfBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawVaried(t, "p")
		p.Accuracy = rapid.SampledFrom([]float64{0, 0.5, 0.7, 0.9}).Draw(t, "floor")
		hardware := gpus(rapid.IntRange(0, 4).Draw(t, "devices"))
		cost, accuracy, found := brute(p, hardware)
		got := solveOne(p, hardware)
		require.Equal(t, found, got.Status != plan.Infeasible, got.Reason)
		if !found {
			return
		}
		assert.InDelta(t, cost, got.Cost, 1e-9)
		if hardware[0].Count > 0 && p.Varied() {
			assert.InDelta(t, accuracy, got.Accuracy, 1e-9)
		}
	})
}

// On devices that are fixed the accuracy falls with the rate, never below the floor, and
// comes back with it.
func TestAccuracyFallsWithTheRateOnFixedDevices(t *testing.T) {
	p := varied(0)
	p.Accuracy = 0.7
	before := 1.0
	for rate := 10.0; rate <= 400; rate += 10 {
		p.Rate = rate
		got := solveOne(p, gpus(4))
		if got.Status == plan.Infeasible {
			assert.Contains(t, got.Reason, "no combination of variants with an accuracy of at least 0.7 has a plan")
			p.Accuracy = 0
			assert.NotEqual(t, plan.Infeasible, solveOne(p, gpus(4)).Status, "less accurate ones suffice for %v/s", rate)
			break
		}
		assert.LessOrEqual(t, got.Accuracy, before)
		assert.GreaterOrEqual(t, got.Accuracy, 0.7)
		before = got.Accuracy
	}
	assert.Less(t, before, 0.855)
}

// Pipelines that are planned together choose one after another, and never cost more than
// without variants.
func TestVariantsOfPipelinesTogether(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var specs, own []scheduler.Spec
		for i := range 2 {
			p := drawVaried(t, fmt.Sprint("p", i))
			p.Plan.CostModel = "shared"
			specs = append(specs, scheduler.Spec{Pipeline: p, Hardware: gpus(0)})
			own = append(own, scheduler.Spec{Pipeline: without(*p), Hardware: gpus(0)})
		}
		sum := func(all []scheduler.Plan) (cost float64, feasible bool) {
			for _, p := range all {
				if p.Reason() != "" {
					return 0, false
				}
				cost += p.CostPerHour()
			}
			return cost, true
		}
		with, _ := sum(scheduler.Solve(specs, scheduler.Fleet{}, scheduler.Limits{}))
		if alone, ok := sum(scheduler.Solve(own, scheduler.Fleet{}, scheduler.Limits{})); ok {
			assert.LessOrEqual(t, with, alone*(1+1e-9))
		}
	})
}

func TestAPlanWithVariantsTellsWhoServes(t *testing.T) {
	p := varied(100)
	p.Accuracy = 0.75
	got := solveOne(p, gpus(0))
	assert.Contains(t, got.Describe(), "accuracy 0.")
	assert.Contains(t, got.Describe(), "100 % of detect by small (0.8)")
	spec := scheduler.Spec{Pipeline: p, Hardware: gpus(0)}
	d := spec.Deploy(1, scheduler.Plan{Pipeline: &got})
	assert.Equal(t, "small", d.Pipeline.Module("detect").Variant)
	assert.Equal(t, p.Modules[0].Variants[0].Profile, d.Pipeline.Module("detect").Profile)
	assert.Empty(t, spec.Pipeline.Module("detect").Variant, "what is declared stays")
}

// A floor without any variant is no reason of its own.
func TestWithoutVariantsTheReasonIsThePlans(t *testing.T) {
	p := without(*varied(1000))
	own := solveOne(p, gpus(1))
	require.Equal(t, plan.Infeasible, own.Status)
	p.Accuracy = 0.5
	got := solveOne(p, gpus(1))
	assert.Equal(t, plan.Infeasible, got.Status)
	assert.Equal(t, own.Reason, got.Reason)
}
