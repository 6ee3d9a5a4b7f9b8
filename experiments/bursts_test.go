package experiments

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// Sixteen crops come at one instant: one device needs 136 ms for them.
func TestCropsThatComeAtOnce(t *testing.T) {
	t.Parallel()
	const tenth = 100 * time.Millisecond
	for model, cost := range map[string]float64{plan.CostShared: 2, plan.CostWhole: 3, plan.CostProportional: 5 * (0.005 + 2*0.064)} {
		for _, problem := range []plan.Problem{crops(16, 0, 0, tenth), crops(0, 16, 5, tenth)} {
			p := policies.Solve(problem, plan.Options{CostModel: model})
			require.Equal(t, plan.Optimal, p.Status, p.Describe())
			assert.InDelta(t, cost, p.Cost, 1e-9, p.Describe())
			assert.Equal(t, plan.EveryRequest, p.Proof)
			assert.Equal(t, &plan.Covers{Arrivals: pipelines.ArrivalsEven, Burst: 16}, p.Covers)
			for _, eager := range []bool{false, true} {
				require.NoError(t, keepsPromise([]pipelines.Pipeline{problem.Pipeline}, []plan.Plan{p}, promisePlay{Duration: time.Minute, Eager: eager, Admission: eager}))
			}
		}
	}
	p := policies.Solve(crops(16, 0, 0, tenth), plan.Options{Policy: plan.PolicyHarpagon})
	assert.Equal(t, plan.NoProof, p.Proof, "the papers' policies read mean rates")
	p = policies.Solve(crops(0, 0, 5.5, tenth), plan.Options{})
	assert.Equal(t, plan.NoProof, p.Proof, "there is no known maximum")
}

// The papers' policies plan for mean rates. Their plans are sound where bursts are kept all the same.
func TestPlansForMeanRatesAreSoundWhereBurstsAreKept(t *testing.T) {
	t.Parallel()
	sound := map[bool]int{}
	for _, policy := range policies.Names() {
		for _, model := range plan.CostModels() {
			for _, slo := range []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
				for _, problem := range []plan.Problem{crops(16, 0, 0, slo), crops(0, 16, 5, slo), crops(0, 0, 5.5, slo), crops(2, 0, 0, slo)} {
					o := plan.Options{Policy: policy, CostModel: model}
					p := policies.Solve(problem, o)
					if policy == plan.PolicyExact || p.Status == plan.Infeasible {
						continue
					}
					sound[p.Sound]++
					assert.Equal(t, p.Sound, p.Proof == plan.EveryRequest, p.Describe())
					if most := problem.Pipeline.Module("classify").MostItems(); float64(most) != problem.Pipeline.Module("classify").Fanout {
						assert.False(t, p.Sound, "more may come than the mean")
					}
					if p.Sound {
						require.NoError(t, keepsPromise([]pipelines.Pipeline{problem.Pipeline}, []plan.Plan{p}, promisePlay{Duration: time.Minute}), p.Describe())
					}
					problem.Pipeline.Attainment = pipelines.NoAttainment
					assert.InDelta(t, policies.Solve(problem, o).Cost, p.Cost, 1e-9, "the reading of costs is the papers'")
				}
			}
		}
	}
	assert.Positive(t, sound[true])
	assert.Positive(t, sound[false])
}

// Nor do they count all requests on each branch.
func TestPlansForSharesOfBranchesAreNotSound(t *testing.T) {
	t.Parallel()
	for _, policy := range policies.Names() {
		p := policies.Solve(branches(2, 800*time.Millisecond, 5*time.Millisecond, 60*time.Millisecond, 50*time.Millisecond, 5*time.Millisecond), plan.Options{Policy: policy, CostModel: plan.CostWhole})
		if p.Status != plan.Infeasible {
			assert.Equal(t, policy == plan.PolicyExact, p.Sound, p.Describe())
		}
	}
}

// branches is a gate, what follows it by when and by else, and what takes one of them.
func branches(rate float64, slo time.Duration, gate, read, write, after time.Duration) plan.Problem {
	module := func(name string, takes time.Duration, from ...string) pipelines.Module {
		m := pipelines.Module{Name: name, Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: takes}}}}
		for _, up := range from {
			m.Inputs = append(m.Inputs, pipelines.Binding{Name: up, From: pipelines.Ref{Module: up, Port: "y"}})
		}
		return m
	}
	p := pipelines.Pipeline{Name: "branches", SLO: slo, Rate: rate, Arrivals: pipelines.ArrivalsEven, Modules: []pipelines.Module{
		module("gate", gate), module("read", read, "gate"), module("write", write, "gate"), module("after", after),
	}}
	for i, name := range []string{"read", "write"} {
		m := p.Module(name)
		m.Scatter, m.Fanout, m.Most, m.When, m.Else = true, 0.5, 1, pipelines.Ref{Module: "gate", Port: "found"}, i == 1
	}
	p.Module("after").Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "read", Port: "y"}, Or: pipelines.Ref{Module: "write", Port: "y"}}}
	return plan.Problem{Pipeline: p, Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}}}
}

// A request takes one of two branches, so that both fit on a device that has time for one.
func TestBranchesShareTheTimeOfADevice(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		problem plan.Problem
		shared  float64
	}{
		"one request at a time": {branches(5, 200*ms, 5*ms, 90*ms, 120*ms, 5*ms), 1},
		"requests that overlap": {branches(10, 400*ms, 5*ms, 60*ms, 70*ms, 5*ms), 1},
		"no time for one":       {branches(10, 400*ms, 5*ms, 60*ms, 95*ms, 5*ms), 2},
	} {
		t.Run(name, func(t *testing.T) {
			both := c.problem
			both.Pipeline.Modules = slices.Clone(both.Pipeline.Modules)
			both.Pipeline.Module("write").When.Port = "other"
			both.Pipeline.Module("after").Inputs = both.Pipeline.Module("write").Inputs
			for model, cost := range map[string]float64{plan.CostShared: c.shared, plan.CostWhole: 4} {
				p := policies.Solve(c.problem, plan.Options{CostModel: model})
				require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
				assert.InDelta(t, cost, p.Cost, 1e-9, p.Describe())
				assert.Equal(t, plan.EveryRequest, p.Proof)
				assert.LessOrEqual(t, p.LowerBound, p.Cost)
				for _, eager := range []bool{false, true} {
					require.NoError(t, keepsPromise([]pipelines.Pipeline{c.problem.Pipeline}, []plan.Plan{p}, promisePlay{Duration: time.Minute, Eager: eager, Admission: eager}))
				}
			}
			p := policies.Solve(both, plan.Options{CostModel: plan.CostShared})
			assert.InDelta(t, 2, p.Cost, 1e-9, "both may come")
		})
	}
}

// Where conditions are evaluated for each item of a fan-out, a request may take both
// branches: both count. A fan-out within a branch comes with that branch only.
func TestBranchesAndFanouts(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	within, below := branches(2, 500*ms, 5*ms, 60*ms, 50*ms, 5*ms), branches(2, 500*ms, 5*ms, 10*ms, 10*ms, 5*ms)
	within.Pipeline.Module("gate").Scatter, within.Pipeline.Module("gate").Fanout = true, 4
	within.Pipeline.Module("gate").Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}
	for _, name := range []string{"read", "write"} {
		parts := *below.Pipeline.Module("after")
		parts.Name, parts.Scatter, parts.Fanout = name+"-parts", true, 8
		parts.Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: name, Port: "y"}}}
		parts.Profile = below.Pipeline.Module("read").Profile
		parts.Profile.Points = []pipelines.Point{{Hardware: "gpu", Batch: 1, Concurrency: 1, Duration: 40 * ms}}
		below.Pipeline.Modules = append(below.Pipeline.Modules, parts)
	}
	below.Pipeline.Module("after").Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "read-parts", Port: "y"}, Or: pipelines.Ref{Module: "write-parts", Port: "y"}}}
	for name, c := range map[string]struct {
		problem     plan.Problem
		least, both float64
	}{
		"within": {within, 1, 1},
		"below":  {below, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := policies.Solve(c.problem, plan.Options{})
			require.NotEqual(t, plan.Infeasible, p.Status, p.Reason)
			assert.InDelta(t, c.least, p.Cost, 1e-9, p.Describe())
			assert.Equal(t, plan.EveryRequest, p.Proof)
			for _, eager := range []bool{false, true} {
				require.NoError(t, keepsPromise([]pipelines.Pipeline{c.problem.Pipeline}, []plan.Plan{p}, promisePlay{Duration: time.Minute, Eager: eager, Admission: eager}), "eager %v", eager)
			}
			c.problem.Pipeline.Modules = slices.Clone(c.problem.Pipeline.Modules)
			c.problem.Pipeline.Module("write").When.Port = "other"
			p = policies.Solve(c.problem, plan.Options{})
			assert.InDelta(t, c.both, p.Cost, 1e-9, p.Describe())
		})
	}
}
