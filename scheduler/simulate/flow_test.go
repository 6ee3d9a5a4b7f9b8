package simulate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/scheduler/dispatch"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// step is a module of which every batch of up to largest takes as long.
func step(name string, took time.Duration, largest int, from ...string) pipelines.Module {
	m := pipelines.Module{Name: name, Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{
		{Hardware: "gpu", Batch: largest, Concurrency: 1, Duration: took},
	}}}
	for _, up := range from {
		m.Inputs = append(m.Inputs, pipelines.Binding{Name: up, From: pipelines.Ref{Module: up, Port: "out"}})
	}
	return m
}

func scatter(m pipelines.Module, mean float64) pipelines.Module {
	m.Scatter, m.Fanout = true, mean
	return m
}

// onOwn is a plan with n machines for every module, each batch on its own.
func onOwn(p pipelines.Pipeline, n float64) plan.Plan {
	out := plan.Plan{Pipeline: p.Name, Status: plan.Feasible, SLO: p.SLO}
	for _, m := range p.Modules {
		at := m.Profile.Points[0]
		out.Modules = append(out.Modules, plan.Module{Name: m.Name, Rate: 1, Budget: at.Duration, Groups: []plan.Group{{
			Hardware: at.Hardware, Batch: at.Batch, Concurrency: 1, Duration: at.Duration, Machines: n, Rate: 1, Period: at.Duration, Window: at.Duration,
		}}})
	}
	return out
}

func TestGraphs(t *testing.T) {
	for name, c := range map[string]struct {
		modules []pipelines.Module
		latency time.Duration
		items   map[string]int64 // a request
	}{
		"one":   {[]pipelines.Module{step("a", 10*ms, 1)}, 10 * ms, map[string]int64{"a": 1}},
		"chain": {[]pipelines.Module{step("a", 10*ms, 1), step("b", 5*ms, 1, "a")}, 15 * ms, map[string]int64{"a": 1, "b": 1}},
		"join": {[]pipelines.Module{step("a", 10*ms, 1), step("b", 5*ms, 1, "a"), step("c", 30*ms, 1, "a"), step("d", 2*ms, 1, "b", "c")},
			42 * ms, map[string]int64{"a": 1, "b": 1, "c": 1, "d": 1}},
		"gathered": {[]pipelines.Module{step("a", 10*ms, 1), scatter(step("b", 5*ms, 1, "a"), 3), step("c", 2*ms, 1, "a", "b")},
			27 * ms, map[string]int64{"a": 1, "b": 3, "c": 1}}, // b runs one by one
		"nested": {[]pipelines.Module{step("a", 10*ms, 1), scatter(step("b", 1*ms, 1, "a"), 2), scatter(step("c", 1*ms, 1, "b"), 3),
			step("d", 1*ms, 1, "c"), step("e", 1*ms, 1, "b", "d"), step("f", 1*ms, 1, "a", "e")},
			20 * ms, map[string]int64{"a": 1, "b": 2, "c": 6, "d": 6, "e": 2, "f": 1}},
		"nothing left": {[]pipelines.Module{step("a", 10*ms, 1), scatter(step("b", 5*ms, 1, "a"), 0), step("c", 7*ms, 1, "a", "b")},
			17 * ms, map[string]int64{"a": 1, "b": 0, "c": 1}},
		"nothing at the end": {[]pipelines.Module{step("a", 10*ms, 1), scatter(step("b", 5*ms, 1, "a"), 0)}, 10 * ms, map[string]int64{"a": 1, "b": 0}},
	} {
		p := pipelines.Pipeline{Name: "p", SLO: 100 * ms, Modules: c.modules}
		r, err := OnPlans([]Load{{Pipeline: p, Rate: 5}}, []plan.Plan{onOwn(p, 1)}, Options{Duration: 4 * time.Second, Dispatch: "tc", Eager: true})
		require.NoError(t, err, name)
		one := r.Pipelines[0]
		assert.EqualValues(t, 20, one.Completed, name)
		assert.Equal(t, c.latency, one.Latency.Max, name)
		assert.InEpsilon(t, float64(c.latency), float64(one.Latency.P50), 0.002, name)
		for _, m := range one.Modules {
			assert.Equal(t, 20*c.items[m.Module], m.Completed, "%s: %s", name, m.Module)
		}
	}
}

// TestConditions: of two branches under one condition, every request takes one, each in its
// share of requests.
func TestConditions(t *testing.T) {
	branch := func(name, gate string, share float64, not bool) pipelines.Module {
		m := scatter(step(name, 1*ms, 1, "a"), share)
		m.Most, m.When, m.Else = 1, pipelines.Ref{Module: gate, Port: "found"}, not
		return m
	}
	p := pipelines.Pipeline{Name: "p", SLO: 100 * ms, Modules: []pipelines.Module{
		step("a", 1*ms, 1), branch("yes", "a", 0.3, false), branch("no", "a", 0.7, true), branch("other", "b", 0.3, false),
		step("b", 1*ms, 1, "a"), step("join", 1*ms, 1, "yes", "no", "b"), step("one", 1*ms, 1),
	}}
	p.Module("one").Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "yes", Port: "y"}, Or: pipelines.Ref{Module: "no", Port: "y"}}}
	for _, spread := range []Spread{SpreadPoisson, SpreadNear} {
		r, err := OnPlans([]Load{{Pipeline: p, Rate: 10}}, []plan.Plan{onOwn(p, 1)}, Options{Duration: 1000 * time.Second, Dispatch: "tc", Eager: true, Spread: spread})
		require.NoError(t, err)
		one := r.Pipelines[0]
		assert.EqualValues(t, 10_000, one.Completed)
		seen := map[string]int64{}
		for _, m := range one.Modules {
			seen[m.Module] = m.Completed
		}
		assert.EqualValues(t, 10_000, seen["yes"]+seen["no"])
		assert.InDelta(t, 3000, seen["yes"], 150)
		assert.InDelta(t, 3000, seen["other"], 150)
		assert.EqualValues(t, 10_000, seen["join"])
		assert.EqualValues(t, 10_000, seen["one"])
	}
	for c, want := range map[[3]float64]float64{{1, 1, 1}: 0.5, {0.9, 0.3, 1}: 0.75, {0.2, 0, 1}: 0.2, {0, 0.2, 1}: 0.8, {0.3, 0.7, 0.1}: 0.3} {
		some := pipelines.Pipeline{}
		for i, share := range c {
			if share > 0 {
				some.Modules = append(some.Modules, branch(string(rune('a'+i)), "gate", share, i == 1))
			}
		}
		if c[2] == 1 {
			some.Modules = some.Modules[:len(some.Modules)-1]
		}
		assert.InDelta(t, want, holds(&some, pipelines.Ref{Module: "gate", Port: "found"}), 1e-9, "%v", c)
	}
}

// TestWithdrawal: when one branch fails, what waits in the other is taken back.
func TestWithdrawal(t *testing.T) {
	p := pipelines.Pipeline{Name: "p", SLO: 25 * ms, Modules: []pipelines.Module{
		step("a", 1*ms, 1), step("slow", 20*ms, 1, "a"), step("other", 20*ms, 1, "a"), step("join", 1*ms, 1, "slow", "other"),
	}}
	r, err := OnPlans([]Load{{Pipeline: p, Rate: 100}}, []plan.Plan{onOwn(p, 1)}, Options{Duration: time.Second})
	require.NoError(t, err)
	one := r.Pipelines[0]
	assert.InDelta(t, 50, one.Completed, 2)
	sum := int64(0)
	for _, m := range one.Modules {
		sum += m.Withdrawn
	}
	assert.NotZero(t, sum)
	balanced(t, r)
}

type failer interface {
	require.TestingT
	Helper()
}

// balanced holds that every request and every item has one outcome.
func balanced(t failer, r Result) {
	t.Helper()
	for _, p := range r.Pipelines {
		require.Equal(t, p.Requests, p.Completed+p.Late+p.Dropped+p.Refused, "%+v", p)
		require.True(t, p.Interval.Low <= p.Attainment && p.Attainment <= p.Interval.High, "%+v", p)
		require.True(t, p.Late > 0 || p.Latency.Max <= p.SLO)
		for _, m := range p.Modules {
			require.Equal(t, m.Items, m.Completed+m.Late+m.Dropped+m.Refused+m.Withdrawn, "%+v", m)
		}
	}
	for _, d := range r.Devices {
		require.True(t, d.Utilisation >= 0 && d.Utilisation <= 1+1e-9, "%+v", d)
	}
}

// TestEveryRequestHasOneOutcome plays random pipelines in random circumstances
// twice: all requests are accounted for, and both runs are the same, as are the
// decisions when they are made again from what was recorded.
func TestEveryRequestHasOneOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var loads []Load
		var plans []plan.Plan
		for i := range rapid.IntRange(1, 3).Draw(t, "pipelines") {
			p := drawPipeline(t, fmt.Sprintf("p%d", i))
			loads = append(loads, Load{Pipeline: p, Arrivals: drawArrivals(t), Rate: rapid.Float64Range(0, 400).Draw(t, "rate")})
			plans = append(plans, onOwn(p, float64(rapid.IntRange(1, 3).Draw(t, "machines"))))
		}
		o := Options{
			Seed: rapid.Uint64Range(0, 9).Draw(t, "seed"), Duration: 2 * time.Second, Warmup: rapid.SampledFrom([]time.Duration{0, 500 * ms}).Draw(t, "warmup"),
			Noise:    rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "noise"),
			Delay:    rapid.SampledFrom([]DrawnDelay{{}, FixedDelay(dispatch.Delay{Control: ms, PerRequest: ms / 10}), {Message: Times{Most: 2 * ms}, Request: Times{Mean: ms / 10, Variation: 1}}}).Draw(t, "delay"),
			MaxQueue: rapid.SampledFrom([]int{0, 3}).Draw(t, "queue"), Eager: rapid.Bool().Draw(t, "eager"),
		}
		if rapid.Bool().Draw(t, "outage") {
			o.Outages = []Outage{{Device: 0, From: 600 * ms, To: 900 * ms}, {Device: 0, From: 1100 * ms}}
		}
		play := func() (Result, error) { return OnPlans(loads, plans, o) }
		if rapid.Bool().Draw(t, "pool") {
			o.Dispatch = rapid.SampledFrom(shared.Names()).Draw(t, "dispatch")
			n := rapid.IntRange(1, 4).Draw(t, "devices")
			play = func() (Result, error) { return OnCluster(loads, gpus(n), o) }
		}
		var kept records
		o.Record = kept.record(rapid.SampledFrom([]int{0, 8 << 10}).Draw(t, "record"))
		r, err := play()
		require.NoError(t, err)
		balanced(t, r)
		kept.replay(t)
		o.Record = nil
		again, err := play()
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func drawArrivals(t *rapid.T) arrivals.Process {
	return rapid.SampledFrom([]arrivals.Process{
		{}, {Kind: pipelines.ArrivalsPoisson}, {Kind: pipelines.ArrivalsGamma, Shape: 0.1},
		{Kind: pipelines.ArrivalsTrace, Trace: &pipelines.Trace{Seconds: []int64{0, 3}, Counts: []float64{50, 7}}},
		{Kind: arrivals.Replay, Stamps: []time.Duration{0, 0, 1, 900 * ms}},
	}).Draw(t, "arrivals")
}

// drawPipeline draws a DAG of up to five modules, some of which scatter.
func drawPipeline(t *rapid.T, name string) pipelines.Pipeline {
	p := pipelines.Pipeline{Name: name, Rate: 10, SLO: time.Duration(rapid.IntRange(120, 300).Draw(t, "slo")) * ms}
	for i := range rapid.IntRange(1, 5).Draw(t, "modules") {
		var from []string
		for k := range i {
			if rapid.Bool().Draw(t, "feeds") {
				from = append(from, p.Modules[k].Name)
			}
		}
		took := time.Duration(rapid.IntRange(1, 10).Draw(t, "took")) * ms
		m := step(fmt.Sprintf("m%d", i), took, rapid.SampledFrom([]int{1, 4}).Draw(t, "batch"), from...)
		if rapid.Bool().Draw(t, "scatter") {
			m = scatter(m, rapid.SampledFrom([]float64{0, 0.5, 1, 1.8, 3}).Draw(t, "fanout"))
		}
		p.Modules = append(p.Modules, m)
	}
	return p
}
