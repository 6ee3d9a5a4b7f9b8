package experiments_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/demand"
	"github.com/harpagon/harpagon/scheduler/plan/paper"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// limit bounds searches in these tests by ticks of a clock that goes on by
// itself, so that they end the same way on every machine.
const limit = 20 * time.Second

func ticking() func() time.Duration {
	var now time.Duration
	return func() time.Duration { now += time.Millisecond; return now }
}

func few(t *testing.T, n int) []experiments.Workload {
	t.Helper()
	list, err := experiments.Workloads(experiments.DefaultSeed, n)
	require.NoError(t, err)
	return list
}

func TestWorkloadsAreTheSameEachTime(t *testing.T) {
	short, long := few(t, 7), few(t, 23)
	assert.Equal(t, short, long[:7])
	other, err := experiments.Workloads(experiments.DefaultSeed+1, 7)
	require.NoError(t, err)
	assert.NotEqual(t, short, other)
}

func TestWorkloadsKeepTheirRanges(t *testing.T) {
	apps, families := map[string]int{}, map[string]int{}
	for _, w := range few(t, experiments.DefaultWorkloads) {
		require.NoError(t, w.Problem.Check(), w.Describe())
		apps[w.Application]++
		for _, f := range w.Families {
			families[f]++
		}
		pipe := w.Problem.Pipeline
		_, fastest, err := pipe.FastestPath(w.Problem.Hardware)
		require.NoError(t, err)
		assert.InDelta(t, w.SLOFactor, float64(pipe.SLO)/float64(fastest), 1e-6)
		assert.True(t, w.SLOFactor >= 2 && w.SLOFactor <= 10)
		assert.True(t, pipe.Rate >= 20 && pipe.Rate <= 1000)
		assert.Contains(t, []int{2, 3}, len(w.Problem.Hardware))
		for _, h := range w.Problem.Hardware {
			assert.Positive(t, h.Price)
		}
	}
	assert.Len(t, apps, 5)
	for app, n := range apps {
		assert.InDelta(t, experiments.DefaultWorkloads/5, n, 1, app)
	}
	for _, f := range experiments.Families() {
		assert.Positive(t, families[f], f)
	}
}

func TestWithConcurrency(t *testing.T) {
	w := few(t, 3)[2]
	more := w.WithConcurrency(experiments.DefaultSeed)
	assert.Equal(t, more, w.WithConcurrency(experiments.DefaultSeed))
	require.NoError(t, more.Problem.Check())
	for i, m := range more.Problem.Pipeline.Modules {
		before := w.Problem.Pipeline.Modules[i].Profile.Points
		assert.Len(t, m.Profile.Points, 3*len(before))
		assert.Equal(t, before, m.Profile.Points[:len(before)])
		for _, at := range m.Profile.Points[len(before):] {
			assert.Contains(t, []int{2, 4}, at.Concurrency)
		}
	}
	alone, beside := policies.Solve(w.Problem, plan.Options{CostModel: plan.CostProportional}), policies.Solve(more.Problem, plan.Options{CostModel: plan.CostProportional})
	assert.LessOrEqual(t, beside.Cost, alone.Cost*(1+experiments.Tolerance), "more to choose from")
}

// TestTheSuiteHoldsWhatItIsFor: under every cost model, no policy has a sound
// plan that is cheaper than that of exact, and under proportional costs all of
// exact's are certified.
func TestTheSuiteHoldsWhatItIsFor(t *testing.T) {
	workloads := few(t, 15)
	for _, model := range plan.CostModels() {
		variants := experiments.PlanningPolicies(model)
		require.NotEmpty(t, variants, model)
		variants = slices.DeleteFunc(variants, func(v experiments.Variant) bool { return v.Every > 1 })
		var outcomes [][]experiments.Outcome
		for _, w := range workloads {
			outcomes = append(outcomes, w.Measure(variants, ticking(), limit))
		}
		table := experiments.NewTable(plan.PolicyExact, workloads, variants, outcomes)
		assert.Equal(t, model, table.CostModel)
		for _, r := range table.Rows {
			assert.Zero(t, r.Beats, "%s under %s", r.Name, model)
			assert.Equal(t, len(workloads), r.Run)
			if r.Name == plan.PolicyExact {
				assert.Equal(t, len(workloads), r.Sound+r.Infeasible)
				if model == plan.CostProportional {
					assert.Equal(t, len(workloads), r.Certified)
				}
			}
		}
		assert.NotContains(t, strings.Join(table.Notes(), "\n"), "DEFECT")
	}
}

func TestAblations(t *testing.T) {
	total := 0
	for _, paper := range []string{"Harpagon", "Piccolo"} {
		list := experiments.Ablations(paper)
		require.NotEmpty(t, list, paper)
		assert.Equal(t, paper, list[0].Name)
		for _, v := range list {
			assert.NoError(t, policies.Check(v.Options), v.Name)
			assert.NotEmpty(t, v.What, v.Name)
			assert.GreaterOrEqual(t, v.Printed, 1.0, v.Name)
		}
		total += len(list) - 1
	}
	assert.Equal(t, len(paper.Ablations()), total)
	assert.Empty(t, experiments.Ablations("Clipper"))
}

// TestTable sums up outcomes that are known.
func TestTable(t *testing.T) {
	workloads := make([]experiments.Workload, 4)
	for i := range workloads {
		workloads[i].Problem.Pipeline.SLO = time.Second
	}
	variants := []experiments.Variant{{Name: "exact"}, {Name: "other"}}
	sound := func(cost float64) experiments.Outcome {
		return experiments.Outcome{Status: plan.Feasible, Sound: true, Cost: cost, Solve: time.Millisecond}
	}
	best := sound(2)
	best.Status, best.Bound = plan.Optimal, 2
	broken := sound(1)
	broken.Sound, broken.Proven, broken.Solve = false, 1500*time.Millisecond, 4*time.Millisecond
	none := experiments.Outcome{Status: plan.Infeasible}
	table := experiments.NewTable("exact", workloads, variants, [][]experiments.Outcome{
		{best, sound(2)}, {best, sound(3)}, {best, broken}, {none, none},
	})
	other := table.Rows[1]
	assert.Equal(t, experiments.PlanningRow{
		Name: "other", Run: 4, Infeasible: 1, Sound: 2, Optimal: 1, Equal: 1, Undercut: 1, Compared: 3,
		Mean: 1, Worst: 1.5, Least: 0.5, MeanSound: 1.25, Late: 0.5, P50: 1, P99: 4, MeanSolve: 1.5, Ratios: []float64{1, 1.5, 0.5},
	}, other)
	assert.Equal(t, 3, table.Rows[0].Certified)
	assert.Contains(t, strings.Join(table.Notes(), "\n"), "certified (gap at most 1e-06) on 3 of 4 workloads")
}

func TestTableNamesADefect(t *testing.T) {
	workloads := make([]experiments.Workload, 1)
	dear := experiments.Outcome{Status: plan.Feasible, Sound: true, Cost: 2}
	cheap := experiments.Outcome{Status: plan.Feasible, Sound: true, Cost: 1}
	table := experiments.NewTable("exact", workloads, []experiments.Variant{{Name: "exact"}, {Name: "other"}}, [][]experiments.Outcome{{dear, cheap}})
	assert.Contains(t, strings.Join(table.Notes(), "\n"), "DEFECT: other has a sound plan that is cheaper")
}

func TestReplay(t *testing.T) {
	group := func(batch int, rate float64, window time.Duration) plan.Group {
		return plan.Group{Batch: batch, Rate: rate, Window: window}
	}
	for _, c := range []struct {
		name   string
		groups []plan.Group
		kept   bool
	}{
		{"one group needs b/T", []plan.Group{group(8, 100, 80*time.Millisecond)}, true},
		{"and no less", []plan.Group{group(8, 100, 50*time.Millisecond)}, false},
		{"two groups share the stream", []plan.Group{group(8, 80, 100*time.Millisecond), group(2, 20, 100*time.Millisecond)}, true},
		{"not both at once", []plan.Group{group(8, 80, 80*time.Millisecond), group(2, 20, 80*time.Millisecond)}, false},
		// The example of docs/explanation/what-a-plan-promises.md: what Theorem 1 promises, what can be
		// promised instead, and what it refuses though it can be kept.
		{"Theorem 1 promises 60 and 75 ms", []plan.Group{group(6, 60, 60*time.Millisecond), group(3, 40, 75*time.Millisecond)}, false},
		{"60 and 120 ms can be kept", []plan.Group{group(6, 60, 60*time.Millisecond), group(3, 40, 120*time.Millisecond)}, true},
		{"60 and 90 ms cannot", []plan.Group{group(6, 60, 60*time.Millisecond), group(3, 40, 90*time.Millisecond)}, false},
		{"so can 100 and 60 ms", []plan.Group{group(6, 60, 100*time.Millisecond), group(3, 40, 60*time.Millisecond)}, true},
		{"idle", nil, true},
	} {
		m := plan.Module{Groups: c.groups}
		for _, g := range c.groups {
			m.Rate += g.Rate
		}
		err := experiments.Replay(m, 2000)
		assert.Equal(t, c.kept, err == nil, "%s: %v", c.name, err)
		assert.Equal(t, c.kept, demand.Test(m.Rate, demands(c.groups)).Sound, c.name)
	}
}

// seconds rounds up to nanoseconds.
func seconds(s float64) time.Duration { return time.Duration(s*1e9) + 1 }

func demands(groups []plan.Group) []demand.Group {
	var list []demand.Group
	for _, g := range groups {
		list = append(list, demand.Group{Batch: float64(g.Batch), Period: float64(g.Batch) / g.Rate, Window: g.Window.Seconds()})
	}
	return list
}

func TestProbe(t *testing.T) {
	for _, v := range experiments.ProbeVariants() {
		var samples []experiments.Sample
		for i := range 150 {
			samples = append(samples, v.Sample(experiments.Module(experiments.DefaultSeed, i)))
		}
		p := experiments.NewProbe(v, samples)
		assert.Equal(t, 150, p.Modules)
		assert.Positive(t, p.Several)
		assert.Equal(t, p.Passed, p.Kept, "%s: what passes the demand test is kept request by request", v.Name)
		assert.True(t, p.Saving >= 0 && p.Saving < 1)
	}
}

func TestGrowth(t *testing.T) {
	for _, n := range experiments.Sizes() {
		p := experiments.Growth(experiments.DefaultSeed, n)
		require.NoError(t, p.Check())
		assert.Len(t, p.Pipeline.Modules, n)
		assert.Len(t, p.Hardware, 10)
		assert.Len(t, p.Pipeline.Modules[0].Profile.Points, 160)
	}
	assert.Equal(t, experiments.Growth(1, 20), experiments.Growth(1, 20))
}

// tableII is module M3 of Table II of the Harpagon paper.
func tableII() plan.Problem {
	at := func(batch int, ms time.Duration) pipelines.Point {
		return pipelines.Point{Hardware: "gpu", Batch: batch, Concurrency: 1, Duration: ms * time.Millisecond}
	}
	return plan.Problem{
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
		Pipeline: pipelines.Pipeline{Name: "m3", SLO: time.Second, Rate: 198, Modules: []pipelines.Module{
			{Name: "M3", Fanout: 1, Profile: pipelines.Profile{Points: []pipelines.Point{at(2, 100), at(8, 250), at(32, 800)}}},
		}},
	}
}

// named picks policies by name.
func named(model string, names ...string) []experiments.Variant {
	return slices.DeleteFunc(experiments.PlanningPolicies(model), func(v experiments.Variant) bool { return !slices.Contains(names, v.Name) })
}

func ExampleCompare() {
	var variants []experiments.Variant
	for _, policy := range []string{"exact", "harpagon", "clipper"} {
		variants = append(variants, experiments.Variant{Name: policy, Options: plan.Options{Policy: policy, CostModel: plan.CostProportional}})
	}
	fmt.Print(experiments.Compare(tableII(), variants, nil, 0).Describe())
	// Output:
	// m3 at 198 requests per second within 1000 ms, cost model proportional
	//   policy     cost  ratio  bound   claimed    proven  sound  solve
	//   exact      4.95  1.000   4.95  961.6 ms  961.6 ms    yes      0
	//   harpagon      5  1.010      -    960 ms    960 ms    yes      0
	//   clipper   6.188  1.250      -    500 ms  290.4 ms    yes      0
}

func TestCompare(t *testing.T) {
	p := tableII()
	p.Pipeline.Rate = 1 // a machine that is hardly used
	c := experiments.Compare(p, experiments.PlanningPolicies(plan.CostProportional), nil, 0)
	cheaper := 0
	for _, e := range c.Entries {
		switch {
		case e.Plan.Status == plan.Infeasible:
			assert.Equal(t, e.Plan.Reason, e.Note)
		case e.Plan.Sound:
			assert.Empty(t, e.Note)
			assert.GreaterOrEqual(t, e.Ratio, 1-experiments.Tolerance, e.Plan.Policy)
		case e.Ratio < 1:
			cheaper++
			assert.Contains(t, e.Note, "cheaper than "+c.Best+", but its promise cannot be kept")
		}
	}
	assert.Positive(t, cheaper, "the 2d rule promises too much for a machine that is hardly used")

	p.Pipeline.SLO = time.Millisecond
	c = experiments.Compare(p, experiments.PlanningPolicies(plan.CostProportional), nil, 0)
	assert.Empty(t, c.Best)
	assert.Contains(t, c.Describe(), "No policy found a plan")
}

func TestCompareKnowsWhatABoundIsAbout(t *testing.T) {
	c := experiments.Compare(tableII(), named(plan.CostProportional, plan.PolicyExact, plan.PolicyBrute), nil, 0)
	assert.InDelta(t, 4.95, c.LowerBound, 1e-5, "that of brute, 5.0, is not about all plans")
	assert.Contains(t, c.Describe(), "5*")
	assert.Contains(t, c.Describe(), "* brute: this bound holds only among "+paper.BruteReading)
}

func TestCompareAsJSON(t *testing.T) {
	text, err := json.Marshal(experiments.Compare(tableII(), named(plan.CostProportional, "exact"), nil, 0))
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	for _, key := range []string{"pipeline", "cost_model", "slo_ms", "rate", "best", "cost", "lower_bound", "policies"} {
		assert.Contains(t, got, key)
	}
	entry := got["policies"].([]any)[0].(map[string]any)
	for _, key := range []string{"policy", "status", "sound", "proof", "cost", "ratio", "lower_bound", "latency_ms", "proven_ms", "solve_ms"} {
		assert.Contains(t, entry, key)
	}
	assert.InDelta(t, 4.95, entry["cost"], 1e-9)
}

func TestSweep(t *testing.T) {
	p := tableII()
	v := named(plan.CostProportional, "exact")
	for _, over := range []string{experiments.OverSLO, experiments.OverRate} {
		x := experiments.Along(p, over, 9)
		s := experiments.NewSweep(p, over, x, v)
		require.Len(t, s.X, 9)
		for i, at := range x {
			s.Curves[0].Points[i] = v[0].Point(p, over, at, nil, 0)
		}
		points := s.Curves[0].Points
		assert.Equal(t, over != experiments.OverSLO, points[0].Feasible, "SLOs begin below the fastest path")
		assert.True(t, points[8].Feasible && points[8].Sound)
		if over == experiments.OverRate {
			assert.Greater(t, points[8].Cost, points[0].Cost)
			assert.InDelta(t, 198, s.Declared, 0)
		}
	}
	assert.Nil(t, experiments.Along(p, experiments.OverSLO, 1))
}
