package plan

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// traffic is a pipeline like the example's: detect, then two classifiers of
// what it found, on two kinds of hardware.
func traffic() Problem {
	classifier := func(name string) pipelines.Module {
		return pipelines.Module{
			Name: name, Scatter: true, Fanout: 1.8,
			Inputs: []pipelines.Binding{{Name: "crop", From: pipelines.Ref{Module: "detect", Port: "vehicles"}}},
			Profile: pipelines.Profile{Points: []pipelines.Point{
				{Hardware: "v100", Batch: 1, Concurrency: 1, Duration: 7 * time.Millisecond},
				{Hardware: "v100", Batch: 8, Concurrency: 1, Duration: 21 * time.Millisecond},
				{Hardware: "p100", Batch: 1, Concurrency: 1, Duration: 12 * time.Millisecond},
				{Hardware: "p100", Batch: 8, Concurrency: 1, Duration: 45 * time.Millisecond},
			}},
		}
	}
	return Problem{
		Hardware: []pipelines.Hardware{{Name: "v100", Price: 3.06}, {Name: "p100", Price: 1.46}},
		Pipeline: pipelines.Pipeline{
			Name: "traffic", SLO: 400 * time.Millisecond, Rate: 100,
			Modules: []pipelines.Module{
				{Name: "detect", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{
					{Hardware: "v100", Batch: 1, Concurrency: 1, Duration: 20 * time.Millisecond},
					{Hardware: "v100", Batch: 8, Concurrency: 1, Duration: 80 * time.Millisecond},
					{Hardware: "p100", Batch: 1, Concurrency: 1, Duration: 35 * time.Millisecond},
					{Hardware: "p100", Batch: 8, Concurrency: 1, Duration: 160 * time.Millisecond},
				}}},
				classifier("vehicle"), classifier("colour"),
			},
		},
	}
}

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
	golden(t, "traffic.txt", Solve(traffic(), asPaper).Describe())
	golden(t, "table2_s3.txt", Solve(oneModule(tableM3(), 198, second), Options{Policy: PolicyHarpagon, CostModel: CostProportional, Without: []string{"dummy"}}).Describe())
	golden(t, "table2_s4.txt", Solve(oneModule(tableM3(), 198, second), asPaper).Describe())

	tight := traffic()
	tight.Pipeline.SLO = 20 * time.Millisecond
	golden(t, "infeasible.txt", Solve(tight, asPaper).Describe())

	idle := traffic()
	idle.Pipeline.Rate = 0
	golden(t, "idle.txt", Solve(idle, asPaper).Describe())
}

func TestJSONNames(t *testing.T) {
	p := Solve(traffic(), asPaper)
	b, err := json.MarshalIndent(p, "", "  ")
	require.NoError(t, err)
	golden(t, "traffic.json", string(b)+"\n")

	b, err = json.Marshal(Plan{Pipeline: "p", Status: Infeasible, Reason: "why"})
	require.NoError(t, err)
	assert.Contains(t, string(b), `"modules":[]`)
	var bad Plan
	assert.Error(t, json.Unmarshal([]byte(`{"slo_ms":"soon"}`), &bad))
	assert.Error(t, json.Unmarshal([]byte(`{"modules":[{"rate":"x"}]}`), &bad))
	assert.Error(t, json.Unmarshal([]byte(`{"modules":[{"groups":[{"rate":"x"}]}]}`), &bad))
}

func TestInfeasibleSaysWhichPathNeedsHowMuch(t *testing.T) {
	p := traffic()
	p.Pipeline.SLO = 20 * time.Millisecond
	_, err := SplitLatency(p, asPaper)
	var why *InfeasibleError
	require.ErrorAs(t, err, &why)
	assert.Equal(t, []string{"detect", "vehicle"}, why.Path)
	assert.Equal(t, 27*time.Millisecond, why.Needs)
	assert.Equal(t, "the fastest path detect -> vehicle needs 27 ms, 7 ms more than the SLO of 20 ms", why.Reason)
	assert.EqualError(t, err, `plan: pipeline "traffic": `+why.Reason)
	assert.Equal(t, why.Reason, Solve(p, asPaper).Reason)

	p.Pipeline.SLO = 27 * time.Millisecond
	assert.Equal(t, "the fastest path detect -> vehicle needs 27 ms, which leaves nothing of the SLO of 27 ms to collect a batch; raise the SLO",
		Solve(p, asPaper).Reason)

	one := oneModule(tableM1(), 100, 150*time.Millisecond)
	assert.Equal(t, "module m needs 160 ms, 10 ms more than the SLO of 150 ms", Solve(one, asPaper).Reason)
}

func TestRateZeroCostsNothing(t *testing.T) {
	p := traffic()
	p.Pipeline.Rate = 0
	out := Solve(p, asPaper)
	require.Equal(t, Feasible, out.Status, out.Reason)
	assert.Zero(t, out.Cost)
	for _, m := range out.Modules {
		assert.Empty(t, m.Groups)
	}
}

// A rate so low that even a batch of one fills slower than the SLO is served
// all the same: dummy requests set the pace of the plan.
func TestLowRatesHavePlans(t *testing.T) {
	for _, rate := range []float64{5, 1, 0.1, 1e-6} {
		p := traffic()
		p.Pipeline.Rate = rate
		out := Solve(p, asPaper)
		require.Equal(t, Feasible, out.Status, "%v/s: %s", rate, out.Reason)
		assert.LessOrEqual(t, out.Latency, p.Pipeline.SLO)
	}
}

func TestFreeHardwareIsPlannedByMachines(t *testing.T) {
	priced, free := traffic(), traffic()
	for i := range free.Hardware {
		priced.Hardware[i].Price = 1
		free.Hardware[i].Price = 0
	}
	a, b := Solve(priced, asPaper), Solve(free, asPaper)
	assert.Zero(t, b.Cost)
	for i := range a.Modules {
		assert.Equal(t, a.Modules[i].Groups, b.Modules[i].Groups)
	}
}

func TestCountsBringInTheNextBestHardware(t *testing.T) {
	p := traffic()
	free := Solve(p, asPaper)
	require.Equal(t, Feasible, free.Status)
	used := free.Modules[0].Groups[0].Hardware
	i := slices.IndexFunc(p.Hardware, func(h pipelines.Hardware) bool { return h.Name == used })
	p.Hardware[i].Count = 1

	out := Solve(p, asPaper)
	require.Equal(t, Feasible, out.Status, out.Reason)
	assert.Greater(t, out.Cost, free.Cost)
	assert.LessOrEqual(t, out.machines(used), 1.0)

	p.Hardware[1-i].Count = 1
	out = Solve(p, asPaper)
	require.Equal(t, Infeasible, out.Status)
	assert.Regexp(t, `^100 requests per second need [0-9.]+ `+used+`, 1 exist; at most [0-9.]+ requests per second would fit; 1 more p100 \(1.46 per hour\) would do$`, out.Reason)
}

func TestBadOptions(t *testing.T) {
	tests := []struct {
		o    Options
		want string
	}{
		{Options{Policy: "luck", CostModel: CostProportional}, `plan: there is no policy "luck"; there is exact, harpagon, piccolo, nexus, scrooge, inferline, clipper, brute`},
		{Options{Policy: "exact", Without: []string{"tc"}}, `plan: policy exact has no step "tc" to switch off; it has hetero, hetero:dearest, batch, concurrency`},
		{Options{Policy: "exact", Split: "even"}, `plan: policy exact finds the best split itself; leave out split "even", or take policy harpagon`},
		{Options{CostModel: "gold"}, `plan: policy exact has no cost model "gold"; it has proportional, whole, shared`},
		{Options{Policy: PolicyHarpagon, CostModel: CostProportional, Without: []string{"magic"}}, `plan: policy harpagon has no step "magic" to switch off; it has tc, dt, multi, multi:one, hetero, hetero:dearest, batch, concurrency, dummy, reassign, reassign:one, merge, direct`},
		{Options{Policy: PolicyHarpagon, CostModel: CostProportional, Split: "half"}, `plan: there is no split "half"; there is lc, throughput, even and quantized:10ms with any step`},
		{Options{Policy: PolicyHarpagon, CostModel: CostProportional, Split: "quantized:1ns"}, `plan: split "quantized:1ns": the step must be a duration of 1ms or more, as in quantized:10ms`},
	}
	for _, tt := range tests {
		_, err := SplitLatency(traffic(), tt.o)
		assert.EqualError(t, err, tt.want)
		out := Solve(traffic(), tt.o)
		assert.Equal(t, Infeasible, out.Status)
		assert.Equal(t, tt.want, out.Reason)
	}
}

func TestBadNumbersAreErrorsNotPanics(t *testing.T) {
	floats := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1}
	change := map[string]func(*Problem, float64){
		"rate":        func(p *Problem, x float64) { p.Pipeline.Rate = x },
		"price":       func(p *Problem, x float64) { p.Hardware[0].Price = x },
		"fanout":      func(p *Problem, x float64) { p.Pipeline.Modules[1].Fanout = x },
		"module rate": func(p *Problem, x float64) { p.Pipeline.Modules[1].Rate = x },
	}
	for name, set := range change {
		for _, x := range floats {
			p := traffic()
			set(&p, x)
			assert.Error(t, p.Check(), "%s %v", name, x)
			assert.Equal(t, Infeasible, Solve(p, asPaper).Status, "%s %v", name, x)
		}
	}
	other := map[string]func(*Problem){
		"slo":                  func(p *Problem) { p.Pipeline.SLO = -1 },
		"no modules":           func(p *Problem) { p.Pipeline.Modules = nil },
		"no hardware":          func(p *Problem) { p.Hardware = nil },
		"count":                func(p *Problem) { p.Hardware[0].Count = -1 },
		"hardware twice":       func(p *Problem) { p.Hardware = append(p.Hardware, p.Hardware[0]) },
		"module twice":         func(p *Problem) { p.Pipeline.Modules[1].Name = "detect" },
		"no profile":           func(p *Problem) { p.Pipeline.Modules[0].Profile = pipelines.Profile{} },
		"hardware not allowed": func(p *Problem) { p.Pipeline.Modules[0].Hardware = []string{"t4"} },
		"batch":                func(p *Problem) { p.Pipeline.Modules[0].Profile.Points[0].Batch = 0 },
		"duration":             func(p *Problem) { p.Pipeline.Modules[0].Profile.Points[0].Duration = 0 },
		"huge rate":            func(p *Problem) { p.Pipeline.Rate = 1e308; p.Pipeline.Modules[1].Fanout = 1e10 },
		"cycle": func(p *Problem) {
			p.Pipeline.Modules[0].Inputs = []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "colour", Port: "y"}}}
		},
	}
	for name, set := range other {
		p := traffic()
		set(&p)
		out := Solve(p, asPaper)
		assert.Equal(t, Infeasible, out.Status, name)
		assert.NotEmpty(t, out.Reason, name)
	}
	// Odd, but a plan all the same.
	for _, set := range []func(*Problem){
		func(p *Problem) { p.Pipeline.Rate = 1e12 },
		func(p *Problem) { p.Pipeline.Rate = 1e-12 },
		func(p *Problem) { p.Pipeline.SLO = math.MaxInt64 },
		func(p *Problem) { p.Pipeline.Modules[0].Profile.Points[0].Batch = math.MaxInt32 },
		func(p *Problem) { p.Hardware[0].Price = 1e300 },
	} {
		p := traffic()
		set(&p)
		out := Solve(p, asPaper)
		assert.False(t, math.IsNaN(out.Cost) || math.IsInf(out.Cost, 0))
		_, err := json.Marshal(out)
		assert.NoError(t, err)
	}
}

func TestBudgetsFromElsewhereAreChecked(t *testing.T) {
	_, err := ScheduleModules(traffic(), asPaper, Budgets{"detect": second})
	assert.ErrorContains(t, err, "is missing or negative")
	_, err = ScheduleModules(traffic(), asPaper, Budgets{"detect": second, "vehicle": second, "colour": second})
	assert.EqualError(t, err, "plan: the budgets add up to 2000 ms along a path, more than the SLO of 400 ms")
	_, err = ScheduleModules(traffic(), asPaper, Budgets{"detect": 1, "vehicle": 1, "colour": 1})
	var why *InfeasibleError
	assert.True(t, errors.As(err, &why))
	assert.ErrorContains(t, err, "module detect cannot serve 100 requests per second within its budget of 1e-06 ms")
}

func TestSolveTimeComesFromTheClock(t *testing.T) {
	now := time.Duration(0)
	tick := func() time.Duration { now += time.Millisecond; return now }
	assert.Positive(t, Solve(traffic(), Options{Policy: PolicyHarpagon, Clock: tick}).SolveTime)
	budgets, err := SplitLatency(traffic(), asPaper)
	require.NoError(t, err)
	step, err := ScheduleModules(traffic(), Options{Policy: PolicyHarpagon, Clock: tick}, budgets)
	require.NoError(t, err)
	assert.Equal(t, time.Millisecond, step.SolveTime)
	assert.Zero(t, Solve(traffic(), asPaper).SolveTime)
}

// The split by throughput and in equal shares may cost more, never less than
// the best of them; the quantized one comes close to latency-cost efficiency.
func TestSplits(t *testing.T) {
	cost := map[string]float64{}
	for _, split := range []string{"lc", "throughput", "even", "quantized:10ms"} {
		p := Solve(traffic(), Options{Policy: PolicyHarpagon, CostModel: CostProportional, Split: split, Without: []string{"reassign"}})
		require.Equal(t, Feasible, p.Status, "%s: %s", split, p.Reason)
		cost[split] = p.Cost
	}
	assert.LessOrEqual(t, cost["quantized:10ms"], cost["even"])
	assert.InEpsilon(t, cost["quantized:10ms"], cost["lc"], 0.2)
}

func BenchmarkSolve(b *testing.B) {
	p := traffic()
	b.ReportAllocs()
	for b.Loop() {
		Solve(p, asPaper)
	}
}

func TestQuantizedStepsAreBounded(t *testing.T) {
	p := traffic()
	p.Pipeline.SLO = time.Hour
	assert.Equal(t, `plan: split "quantized:10ms" cuts an SLO of 3600 s into more than 10000 steps; take a longer step`,
		Solve(p, Options{Policy: PolicyHarpagon, CostModel: CostProportional, Split: "quantized:10ms"}).Reason)
}
