package paper

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// One test per claim of the Piccolo paper, in its order. Prices are 1.

var asPiccolo = plan.Options{Policy: plan.PolicyPiccolo, CostModel: plan.CostProportional}

// Table I of the Piccolo paper. M2's batch 8 and M3's batch 2 are printed as
// 0.267 s and 0.167 s; their throughputs are 30 and 12.
func piccoloM1() pipelines.Profile {
	return plantest.Profile(plantest.Point(5, 100), plantest.Point(20, 250), plantest.Point(100, 1000))
}

func piccoloM2() pipelines.Profile {
	return plantest.Profile(plantest.Point(2, 125), plantest.Point(4, 160), plantest.Point(8, 8e3/30))
}

func piccoloM3() pipelines.Profile {
	return plantest.Profile(plantest.Point(2, 2e3/12), plantest.Point(4, 200), plantest.Point(8, 320))
}

// Section II: M1 at 285 requests per second under 2 s takes 3.7 machines with
// two configurations and round robin, 3.1 with more, 3.0 with dummy requests.
func TestPiccoloSectionII(t *testing.T) {
	problem := plantest.OneModule(piccoloM1(), 285, 2*second)
	tests := []struct {
		name    string
		without []string
		cost    float64
		rows    []row
	}{
		{"existing systems", []string{"tc", "multi", "dummy"}, 3.7, []row{{200, 2, 100}, {50, 1, 5}, {35, 0.7, 5}}},
		{"several configurations", []string{"dummy"}, 3.1, []row{{200, 2, 100}, {80, 1, 20}, {5, 0.1, 5}}},
		{"dummy requests", nil, 3.0, []row{{300, 3, 100}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := asPiccolo
			o.Without = tt.without
			p := solve(problem, o)
			require.Equal(t, plan.Feasible, p.Status, p.Reason)
			assert.InDelta(t, tt.cost, p.Cost, 1e-6)
			got := rows(p.Modules[0])
			require.Len(t, got, len(tt.rows))
			for i := range tt.rows {
				assert.InDelta(t, tt.rows[i].rate, got[i].rate, 1e-4)
				assert.InDelta(t, tt.rows[i].machines, got[i].machines, 1e-6)
				assert.Equal(t, tt.rows[i].batch, got[i].batch)
			}
		})
	}
}

// Section II: with two machines' rate the worst case falls from 2d to 1.5d; the
// rest of 85 alone would need 2.18 s.
func TestPiccoloWorstCases(t *testing.T) {
	c := of(plantest.Point(100, 1000))
	rule := throughputCost{}
	assert.Equal(t, 1500*time.Millisecond, rule.full(c, 200))
	assert.Equal(t, 2*second, roundRobin().full(c, 200))
	assert.InDelta(t, 2.18, rule.full(c, 85).Seconds(), 0.005)
}

// Table II: M2 at 50 and M3 at 40 requests per second under three splits of
// 0.9 s. Its batches follow from 2d. The third cost is misprinted: 50/30 + 40/12
// is 5.0, not 4.67.
func TestPiccoloTableII(t *testing.T) {
	m2 := pipelines.Module{Name: "m2", Fanout: 1, Profile: piccoloM2(), Rate: 50}
	m3 := pipelines.Module{Name: "m3", Fanout: 1, Profile: piccoloM3(), Rate: 40,
		Inputs: []pipelines.Binding{{Name: "in", From: pipelines.Ref{Module: "m2", Port: "out"}}}}
	problem := plan.Problem{
		Pipeline: pipelines.Pipeline{Name: "p", SLO: 900 * time.Millisecond, Rate: 50, Modules: []pipelines.Module{m2, m3}},
		Hardware: []pipelines.Hardware{{Name: "gpu", Price: 1}},
	}
	tests := []struct {
		m2, m3         time.Duration
		batch2, batch3 int
		cost           float64
	}{
		{250, 650, 2, 8, 4.725}, // printed 4.73
		{400, 500, 4, 4, 4.00},
		{550, 350, 8, 2, 5.00}, // printed 4.67
	}
	for _, tt := range tests {
		o := plan.Options{Policy: plan.PolicyInferLine, CostModel: plan.CostProportional}
		p, err := scheduleModules(problem, o, plan.Budgets{"m2": tt.m2 * time.Millisecond, "m3": tt.m3 * time.Millisecond})
		require.NoError(t, err)
		assert.Equal(t, tt.batch2, p.Modules[0].Groups[0].Batch)
		assert.Equal(t, tt.batch3, p.Modules[1].Groups[0].Batch)
		assert.InDelta(t, tt.cost, p.Cost, 1e-6)
	}
	// Under its own worst case the first split allows batch 4 for M2: 3.60.
	rule := throughputCost{}
	assert.Equal(t, 240*time.Millisecond, rule.full(of(plantest.Point(4, 160)), 50))
}

// Section II: 15 dummy requests per second save, 10 or 20 do not.
func TestPiccoloDummyRates(t *testing.T) {
	s := paced(285, mustConfigs(t, piccoloM1())...)
	for rate, cost := range map[float64]float64{285: 3.1, 295: 3.1875, 300: 3.0, 305: 3.1} {
		set, _, ok := s.allocate(rate, 2*second)
		require.True(t, ok)
		assert.InDelta(t, cost, set.Weight, 1e-9, "%v", rate)
	}
}

// Section III-B: the machines of figure 3 are those of Harpagon's figure 4, see
// TestTheorem1 and TestRoundRobinIsPlannedWithTwiceTheDuration.

// Section III-C: leaving batch 5 of M1 at 100 requests per second.
func TestPiccoloLatencyCostEfficiency(t *testing.T) {
	problem := plantest.OneModule(piccoloM1(), 100, 5*second)
	p := searching(t, &problem, asPiccolo)
	want := map[int]float64{20: 2.5, 100: 1 / 1.85} // printed as 2.50 and 0.54
	ops := p.operations(p.stateOf([]plan.Config{of(plantest.Point(5, 100))}), []int{0})
	require.Len(t, ops, 2)
	for _, op := range ops {
		assert.InDelta(t, want[op.to[0].Batch], op.efficiency(), 1e-6)
	}
}

// Section III-D: dum = b/(L - d) - u. It is 15 for batch 100. For batch 20 it
// would be 6.4 and raise the cost, so the rule needs a test of the cost.
func TestPiccoloDummyRule(t *testing.T) {
	s := paced(285, mustConfigs(t, piccoloM1())...)
	assert.InDelta(t, 15, plan.CollectRate(of(plantest.Point(100, 1000)), 2*second)-85, 1e-5)
	small := plan.CollectRate(of(plantest.Point(20, 250)), 2*second) - 5
	assert.InDelta(t, 6.43, small, 0.01)
	plain, _, ok := s.allocate(285, 2*second)
	require.True(t, ok)
	padded, _, ok := s.allocate(285+small, 2*second)
	require.True(t, ok)
	assert.Greater(t, padded.Weight, plain.Weight)

	// Harpagon's M3 shows the limit of the formula: it wants 122 dummy requests
	// where 2 fill a machine. What batch 8 wants, 10.67 in all, happens to fill a
	// fifth machine of batch 32 and leaves 2.67 for batch 2: 5.13 instead of 5.0.
	assert.InDelta(t, 122, plan.CollectRate(of(plantest.Point(32, 800)), second)-38, 1e-5)
	p := solve(plantest.OneModule(plantest.TableM3(), 198, second), asPiccolo)
	assert.InDelta(t, 5+(8/0.75-8)/20, p.Cost, 1e-6)
	assert.InDelta(t, 8/0.75-6, p.Modules[0].DummyRate, 1e-6)
}

// Concurrency: four batches of 8 side by side in 500 ms serve 64 a second, which
// beats 8 in 200 ms (40 a second), and a batch still collects 8 requests.
func TestPiccoloMultiplexes(t *testing.T) {
	problem := plantest.OneModule(plantest.Profile(plantest.Point(8, 200)), 160, second)
	problem.Pipeline.Modules[0].Profile.Points = append(problem.Pipeline.Modules[0].Profile.Points,
		pipelines.Point{Hardware: "gpu", Batch: 8, Concurrency: 4, Duration: 500 * time.Millisecond})
	p := solve(problem, asPiccolo)
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.InDelta(t, 2.5, p.Cost, 1e-9)
	g := p.Modules[0].Groups[0]
	assert.Equal(t, 4, g.Concurrency)
	assert.Equal(t, 106250*time.Microsecond, g.Window, "the other group's 600 ms, and the time between two requests")
	assert.True(t, p.Sound)

	alone := func(o plan.Options) float64 { return solve(problem, o).Cost }
	assert.InDelta(t, 4, alone(plan.Options{Policy: plan.PolicyPiccolo, CostModel: plan.CostProportional, Without: []string{"concurrency"}}), 1e-9)
	assert.InDelta(t, 4, alone(asPaper), 1e-9)
	for _, policy := range []string{plan.PolicyHarpagon, plan.PolicyExact, plan.PolicyBrute} {
		assert.InDelta(t, 2.5, alone(plan.Options{Policy: policy, CostModel: plan.CostProportional, Concurrency: true}), 1e-9, policy)
	}
}

// Lines 18 and 19: budgets are resized in proportion, so that the longest path
// uses the whole objective.
func TestPiccoloResizesLinearly(t *testing.T) {
	problem := plantest.Traffic()
	p := searching(t, &problem, asPiccolo)
	plain, ok := p.descent()
	require.True(t, ok)
	resized := resize(p, plain)
	require.LessOrEqual(t, p.DAG.Longest(resized), problem.Pipeline.SLO)
	for i := range plain {
		factor := float64(problem.Pipeline.SLO) / float64(p.DAG.LongestThrough(plain, i))
		assert.InDelta(t, factor*float64(plain[i]), float64(resized[i]), 2)
	}
}

// The misprints of Algorithm 2: line 13 as printed looks at the best move so
// far instead of the one that is judged, so a move that breaks the objective
// passes. Read as meant, one move is made in each pass over all modules and
// the objective holds after every one.
func TestPiccoloAlgorithm2AsMeant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		p := searching(t, &problem, asPiccolo)
		s, ok := p.start()
		if !ok {
			return
		}
		path := p.descend(s, p.units(false), byEfficiency)
		for i, s := range path {
			require.LessOrEqual(t, p.DAG.Longest(s.worst), problem.Pipeline.SLO)
			if i > 0 {
				moved := 0
				for k := range s.pick {
					if s.pick[k] != path[i-1].pick[k] {
						moved++
					}
				}
				require.Equal(t, 1, moved, "one module in each pass")
			}
		}
	})
	// As printed: with nothing moved yet, every move passes the check of line 13,
	// the one to batch 100 too, whose 1.35 s are more than the objective.
	problem := plantest.OneModule(piccoloM1(), 285, 600*time.Millisecond)
	p := searching(t, &problem, asPiccolo)
	s, _ := p.start()
	assert.Greater(t, p.worstAt(of(plantest.Point(100, 1000)), 285), problem.Pipeline.SLO)
	assert.False(t, slices.ContainsFunc(p.operations(s, []int{0}), func(o operation) bool { return o.to[0].Batch == 100 }))
}

func TestPiccoloKeepsItsPromises(t *testing.T) {
	feasible := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawConcurrent(t)
		o := asPiccolo
		for _, step := range pipelines.PlanPolicyNamed(pipelines.KindPipeline, plan.PolicyPiccolo).Steps {
			if rapid.IntRange(0, 6).Draw(t, step) == 0 {
				o.Without = append(o.Without, step)
			}
		}
		p := solve(problem, o)
		if p.Status == plan.Infeasible {
			require.NotEmpty(t, p.Reason)
			return
		}
		feasible++
		plantest.CheckPlan(t, problem, o, p)
	})
	assert.NotZero(t, feasible)
}
