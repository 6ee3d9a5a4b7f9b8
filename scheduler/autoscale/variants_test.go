package autoscale

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
)

func TestPipelinesThatDegradeReactSooner(t *testing.T) {
	profile := pipelines.Profile{Points: []pipelines.Point{{Hardware: "gpu", Batch: 1, Duration: 1}}}
	p := &pipelines.Pipeline{Modules: []pipelines.Module{{Name: "m", Profile: profile, Variants: []pipelines.Variant{{Name: "small", Profile: profile}}}}}
	fixed, free := []pipelines.Hardware{{Name: "gpu", Count: 2}, {Name: "cpu"}}, []pipelines.Hardware{{Name: "gpu"}}
	assert.Zero(t, DriftOptions{}.For(p, free), "devices can be had")
	assert.Zero(t, DriftOptions{}.For(nil, fixed))
	assert.Equal(t, degradeHold, DriftOptions{}.For(p, fixed).Hold, "what no module runs on does not matter")
	assert.Equal(t, time.Minute, DriftOptions{Hold: time.Minute}.For(p, fixed).Hold, "an option that is set stays")
	p.Modules[0].Variants = nil
	assert.Zero(t, DriftOptions{}.For(p, fixed))
}

func TestAReserveIsNotTakenForAnotherRate(t *testing.T) {
	begin := time.Unix(0, 0)
	d := NewDrift(100, DriftOptions{Ahead: 0.25, Hold: 10 * time.Second, Cooldown: time.Second})
	var a Advice
	for at := 5; !a.Reschedule && at < 60; at += 5 {
		to := begin.Add(time.Duration(at) * time.Second)
		a = d.Observe(Measures{From: to.Add(-5 * time.Second), To: to, Offered: 200})
	}
	assert.InDelta(t, 200, a.Rate, 5)
	assert.Equal(t, 250.0, RoundUp(a.Wanted()))
	assert.Equal(t, a.Rate, d.Base(a.Wanted()), "what was measured is what is watched")
	assert.Equal(t, 300.0, d.Base(300), "another rate was requested")
	assert.Contains(t, a.Describe(), "to have some in reserve 250/s are planned for")
}

func TestAnsweredByVariants(t *testing.T) {
	begin := time.Unix(1000, 0)
	seen := func(generation, from, to int, n int64) Measures {
		return Measures{Generation: generation, From: begin.Add(time.Duration(from) * time.Second), To: begin.Add(time.Duration(to) * time.Second), Completed: n}
	}
	by := func(name string) *plan.Plan {
		return &plan.Plan{Variants: []plan.ServedVariant{{Module: "m", Variant: name}}}
	}
	var a Answered
	a.Observe(seen(1, 0, 10, 100), &plan.Plan{}, 1)
	assert.Empty(t, a.Describe())
	a.Observe(seen(1, 10, 20, 100), by("own"), 1)
	a.Observe(seen(1, 15, 25, 100), by("own"), 1) // half of it is new
	a.Observe(seen(1, 25, 35, 100), by("small"), 2)
	a.Observe(seen(2, 35, 45, 50), by("small"), 2)
	assert.Equal(t, map[string]float64{"m=own": 150, "m=small": 50}, a.Requests)
	assert.Equal(t, "answered about 200 requests: 75 % with m=own, 25 % with m=small\n", a.Describe())
}
