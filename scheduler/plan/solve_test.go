package plan_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// golden compares with a file under testdata; UPDATE=1 rewrites it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := "testdata/" + file
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), got)
}

func TestDescribe(t *testing.T) {
	golden(t, "traffic.txt", policies.Solve(plantest.Traffic(), asPaper).Describe())
	golden(t, "table2_s3.txt", policies.Solve(plantest.OneModule(plantest.TableM3(), 198, second), plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Without: []string{"dummy"}}).Describe())
	golden(t, "table2_s4.txt", policies.Solve(plantest.OneModule(plantest.TableM3(), 198, second), asPaper).Describe())

	tight := plantest.Traffic()
	tight.Pipeline.SLO = 20 * time.Millisecond
	golden(t, "infeasible.txt", policies.Solve(tight, asPaper).Describe())

	idle := plantest.Traffic()
	idle.Pipeline.Rate = 0
	golden(t, "idle.txt", policies.Solve(idle, asPaper).Describe())
}

func TestJSONNames(t *testing.T) {
	p := policies.Solve(plantest.Traffic(), asPaper)
	b, err := json.MarshalIndent(p, "", "  ")
	require.NoError(t, err)
	golden(t, "traffic.json", string(b)+"\n")

	b, err = json.Marshal(plan.Plan{Pipeline: "p", Status: plan.Infeasible, Reason: "why"})
	require.NoError(t, err)
	assert.Contains(t, string(b), `"modules":[]`)
	var bad plan.Plan
	assert.Error(t, json.Unmarshal([]byte(`{"slo_ms":"soon"}`), &bad))
	assert.Error(t, json.Unmarshal([]byte(`{"modules":[{"rate":"x"}]}`), &bad))
	assert.Error(t, json.Unmarshal([]byte(`{"modules":[{"groups":[{"rate":"x"}]}]}`), &bad))
}

func TestInfeasibleSaysWhichPathNeedsHowMuch(t *testing.T) {
	p := plantest.Traffic()
	p.Pipeline.SLO = 20 * time.Millisecond
	_, err := policies.SplitLatency(p, asPaper)
	var why *plan.InfeasibleError
	require.ErrorAs(t, err, &why)
	assert.Equal(t, []string{"detect", "vehicle"}, why.Path)
	assert.Equal(t, 27*time.Millisecond, why.Needs)
	assert.Equal(t, "the fastest path detect -> vehicle needs 27 ms, 7 ms more than the SLO of 20 ms", why.Reason)
	assert.EqualError(t, err, `plan: pipeline "traffic": `+why.Reason)
	assert.Equal(t, why.Reason, policies.Solve(p, asPaper).Reason)

	p.Pipeline.SLO = 27 * time.Millisecond
	assert.Equal(t, "the fastest path detect -> vehicle needs 27 ms, which leaves nothing of the SLO of 27 ms to collect a batch; raise the SLO",
		policies.Solve(p, asPaper).Reason)

	one := plantest.OneModule(plantest.TableM1(), 100, 150*time.Millisecond)
	assert.Equal(t, "module m needs 160 ms, 10 ms more than the SLO of 150 ms", policies.Solve(one, asPaper).Reason)
}

func TestRateZeroCostsNothing(t *testing.T) {
	p := plantest.Traffic()
	p.Pipeline.Rate = 0
	out := policies.Solve(p, asPaper)
	require.Equal(t, plan.Feasible, out.Status, out.Reason)
	assert.Zero(t, out.Cost)
	for _, m := range out.Modules {
		assert.Empty(t, m.Groups)
	}
}

// A rate so low that even a batch of one fills slower than the SLO is served
// all the same: dummy requests set the pace of the plan.
func TestLowRatesHavePlans(t *testing.T) {
	for _, rate := range []float64{5, 1, 0.1, 1e-6} {
		p := plantest.Traffic()
		p.Pipeline.Rate = rate
		out := policies.Solve(p, asPaper)
		require.Equal(t, plan.Feasible, out.Status, "%v/s: %s", rate, out.Reason)
		assert.LessOrEqual(t, out.Latency, p.Pipeline.SLO)
	}
}

func TestFreeHardwareIsPlannedByMachines(t *testing.T) {
	priced, free := plantest.Traffic(), plantest.Traffic()
	for i := range free.Hardware {
		priced.Hardware[i].Price = 1
		free.Hardware[i].Price = 0
	}
	a, b := policies.Solve(priced, asPaper), policies.Solve(free, asPaper)
	assert.Zero(t, b.Cost)
	for i := range a.Modules {
		assert.Equal(t, a.Modules[i].Groups, b.Modules[i].Groups)
	}
}

func TestCountsBringInTheNextBestHardware(t *testing.T) {
	p := plantest.Traffic()
	free := policies.Solve(p, asPaper)
	require.Equal(t, plan.Feasible, free.Status)
	used := free.Modules[0].Groups[0].Hardware
	i := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == used })
	p.Hardware[i].Count = 1

	out := policies.Solve(p, asPaper)
	require.Equal(t, plan.Feasible, out.Status, out.Reason)
	assert.Greater(t, out.Cost, free.Cost)
	assert.LessOrEqual(t, out.MachinesOf(used), 1.0)

	p.Hardware[1-i].Count = 1
	out = policies.Solve(p, asPaper)
	require.Equal(t, plan.Infeasible, out.Status)
	assert.Regexp(t, `^100 requests per second need [0-9.]+ `+used+`, 1 exist; at most [0-9.]+ requests per second would fit; 1 more p100 \(1.46 per hour\) would do$`, out.Reason)
}

func TestBadOptions(t *testing.T) {
	tests := []struct {
		o    plan.Options
		want string
	}{
		{plan.Options{Policy: "luck", CostModel: plan.CostProportional}, `plan: there is no policy "luck"; there is ` + strings.Join(pipelines.Policies(pipelines.KindPipeline), ", ")},
		{plan.Options{Policy: "exact", Without: []string{"tc"}}, `plan: policy exact has no step "tc" to switch off; it has hetero, hetero:dearest, batch, concurrency`},
		{plan.Options{Policy: "exact", Split: "even"}, `plan: policy exact finds the best split itself; leave out split "even", or take policy harpagon`},
		{plan.Options{CostModel: "gold"}, `plan: policy exact has no cost model "gold"; it has proportional, whole, shared`},
		{plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Without: []string{"magic"}}, `plan: policy harpagon has no step "magic" to switch off; it has tc, dt, multi, multi:one, hetero, hetero:dearest, batch, concurrency, dummy, reassign, reassign:one, merge, direct`},
		{plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Split: "half"}, `plan: there is no split "half"; there is lc, throughput, even and quantized:10ms with any step`},
		{plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Split: "quantized:1ns"}, `plan: split "quantized:1ns": the step must be a duration of 1ms or more, as in quantized:10ms`},
	}
	for _, tt := range tests {
		_, err := policies.SplitLatency(plantest.Traffic(), tt.o)
		assert.EqualError(t, err, tt.want)
		out := policies.Solve(plantest.Traffic(), tt.o)
		assert.Equal(t, plan.Infeasible, out.Status)
		assert.Equal(t, tt.want, out.Reason)
	}
}

func TestBadNumbersAreErrorsNotPanics(t *testing.T) {
	floats := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1}
	change := map[string]func(*plan.Problem, float64){
		"rate":        func(p *plan.Problem, x float64) { p.Pipeline.Rate = x },
		"price":       func(p *plan.Problem, x float64) { p.Hardware[0].Price = x },
		"fanout":      func(p *plan.Problem, x float64) { p.Pipeline.Modules[1].Fanout = x },
		"module rate": func(p *plan.Problem, x float64) { p.Pipeline.Modules[1].Rate = x },
	}
	for name, set := range change {
		for _, x := range floats {
			p := plantest.Traffic()
			set(&p, x)
			assert.Error(t, p.Check(), "%s %v", name, x)
			assert.Equal(t, plan.Infeasible, policies.Solve(p, asPaper).Status, "%s %v", name, x)
		}
	}
	other := map[string]func(*plan.Problem){
		"slo":                  func(p *plan.Problem) { p.Pipeline.SLO = -1 },
		"no modules":           func(p *plan.Problem) { p.Pipeline.Modules = nil },
		"no hardware":          func(p *plan.Problem) { p.Hardware = nil },
		"count":                func(p *plan.Problem) { p.Hardware[0].Count = -1 },
		"hardware twice":       func(p *plan.Problem) { p.Hardware = append(p.Hardware, p.Hardware[0]) },
		"module twice":         func(p *plan.Problem) { p.Pipeline.Modules[1].Name = "detect" },
		"no profile":           func(p *plan.Problem) { p.Pipeline.Modules[0].Profile = pipelines.Profile{} },
		"hardware not allowed": func(p *plan.Problem) { p.Pipeline.Modules[0].Hardware = []string{"t4"} },
		"batch":                func(p *plan.Problem) { p.Pipeline.Modules[0].Profile.Points[0].Batch = 0 },
		"duration":             func(p *plan.Problem) { p.Pipeline.Modules[0].Profile.Points[0].Duration = 0 },
		"huge rate":            func(p *plan.Problem) { p.Pipeline.Rate = 1e308; p.Pipeline.Modules[1].Fanout = 1e10 },
		"cycle": func(p *plan.Problem) {
			p.Pipeline.Modules[0].Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "colour", Port: "y"}}}
		},
	}
	for name, set := range other {
		p := plantest.Traffic()
		set(&p)
		out := policies.Solve(p, asPaper)
		assert.Equal(t, plan.Infeasible, out.Status, name)
		assert.NotEmpty(t, out.Reason, name)
	}
	// Odd, but a plan all the same.
	for _, set := range []func(*plan.Problem){
		func(p *plan.Problem) { p.Pipeline.Rate = 1e12 },
		func(p *plan.Problem) { p.Pipeline.Rate = 1e-12 },
		func(p *plan.Problem) { p.Pipeline.SLO = math.MaxInt64 },
		func(p *plan.Problem) { p.Pipeline.Modules[0].Profile.Points[0].Batch = math.MaxInt32 },
		func(p *plan.Problem) { p.Hardware[0].Price = 1e300 },
	} {
		p := plantest.Traffic()
		set(&p)
		out := policies.Solve(p, asPaper)
		assert.False(t, math.IsNaN(out.Cost) || math.IsInf(out.Cost, 0))
		_, err := json.Marshal(out)
		assert.NoError(t, err)
	}
}

func TestBudgetsFromElsewhereAreChecked(t *testing.T) {
	_, err := policies.ScheduleModules(plantest.Traffic(), asPaper, plan.Budgets{"detect": second})
	assert.ErrorContains(t, err, "is missing or negative")
	_, err = policies.ScheduleModules(plantest.Traffic(), asPaper, plan.Budgets{"detect": second, "vehicle": second, "colour": second})
	assert.EqualError(t, err, "plan: the budgets add up to 2000 ms along a path, more than the SLO of 400 ms")
	_, err = policies.ScheduleModules(plantest.Traffic(), asPaper, plan.Budgets{"detect": 1, "vehicle": 1, "colour": 1})
	var why *plan.InfeasibleError
	assert.True(t, errors.As(err, &why))
	assert.ErrorContains(t, err, "module detect cannot serve 100 requests per second within its budget of 0.000001 ms")
}

func TestSolveTimeComesFromTheClock(t *testing.T) {
	now := time.Duration(0)
	tick := func() time.Duration { now += time.Millisecond; return now }
	assert.Positive(t, policies.Solve(plantest.Traffic(), plan.Options{Policy: plan.PolicyHarpagon, Clock: tick}).SolveTime)
	budgets, err := policies.SplitLatency(plantest.Traffic(), asPaper)
	require.NoError(t, err)
	step, err := policies.ScheduleModules(plantest.Traffic(), plan.Options{Policy: plan.PolicyHarpagon, Clock: tick}, budgets)
	require.NoError(t, err)
	assert.Equal(t, time.Millisecond, step.SolveTime)
	assert.Zero(t, policies.Solve(plantest.Traffic(), asPaper).SolveTime)
}

// The split by throughput and in equal shares may cost more, never less than
// the best of them; the quantized one comes close to latency-cost efficiency.
func TestSplits(t *testing.T) {
	cost := map[string]float64{}
	for _, split := range []string{"lc", "throughput", "even", "quantized:10ms"} {
		p := policies.Solve(plantest.Traffic(), plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Split: split, Without: []string{"reassign"}})
		require.Equal(t, plan.Feasible, p.Status, "%s: %s", split, p.Reason)
		cost[split] = p.Cost
	}
	assert.LessOrEqual(t, cost["quantized:10ms"], cost["even"])
	assert.InEpsilon(t, cost["quantized:10ms"], cost["lc"], 0.2)
}

func BenchmarkSolve(b *testing.B) {
	p := plantest.Traffic()
	b.ReportAllocs()
	for b.Loop() {
		policies.Solve(p, asPaper)
	}
}

func TestQuantizedStepsAreBounded(t *testing.T) {
	p := plantest.Traffic()
	p.Pipeline.SLO = time.Hour
	assert.Equal(t, `plan: split "quantized:10ms" cuts an SLO of 3600 s into more than 10000 steps; take a longer step`,
		policies.Solve(p, plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Split: "quantized:10ms"}).Reason)
}
