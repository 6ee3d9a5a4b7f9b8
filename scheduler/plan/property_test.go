package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
)

// drawProblem makes a random DAG with random profiles on three kinds of
// hardware. Longer batches take longer, and less time a request.
func drawProblem(t *rapid.T) Problem {
	p := Problem{Hardware: []pipelines.Hardware{{Name: "a", Price: 1}, {Name: "b", Price: 2.5}, {Name: "c", Price: 0.3}}}
	p.Pipeline = pipelines.Pipeline{
		Name: "p",
		SLO:  time.Duration(rapid.IntRange(50, 3000).Draw(t, "slo")) * time.Millisecond,
		Rate: rapid.Float64Range(0, 500).Draw(t, "rate"),
	}
	for i := range p.Hardware {
		p.Hardware[i].Count = rapid.SampledFrom([]int{0, 0, 0, 1, 20}).Draw(t, "count")
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "modules") {
		m := pipelines.Module{Name: fmt.Sprintf("m%d", i), Fanout: rapid.SampledFrom([]float64{1, 1, 2.5, 0.3}).Draw(t, "fanout")}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				m.Inputs = append(m.Inputs, pipelines.Binding{Name: fmt.Sprintf("i%d", j), From: pipelines.Ref{Module: fmt.Sprintf("m%d", j), Port: "out"}})
			}
		}
		m.Profile = drawProfile(t)
		p.Pipeline.Modules = append(p.Pipeline.Modules, m)
	}
	return p
}

// drawFew is a problem of at most three modules, where each is solved often.
func drawFew(t *rapid.T) Problem {
	p := drawProblem(t)
	p.Pipeline.Modules = p.Pipeline.Modules[:min(3, len(p.Pipeline.Modules))]
	return p
}

func drawProfile(t *rapid.T) pipelines.Profile {
	var profile pipelines.Profile
	for i, hardware := range []string{"a", "b", "c"} {
		if i > 0 && rapid.Bool().Draw(t, "skip") {
			continue
		}
		fixed := rapid.Float64Range(1, 30).Draw(t, "fixed")
		each := rapid.Float64Range(0.1, 10).Draw(t, "each")
		for b := 1; b <= 32; b *= 2 {
			d := time.Duration((fixed + each*float64(b)) * 1e6)
			profile.Points = append(profile.Points, pipelines.Point{Hardware: hardware, Batch: b, Concurrency: 1, Duration: d})
		}
	}
	return profile
}

func drawOptions(t *rapid.T) Options {
	o := Options{Policy: PolicyHarpagon, CostModel: CostProportional, Split: rapid.SampledFrom([]string{"", "lc", "throughput", "even", "quantized:50ms"}).Draw(t, "split")}
	for _, step := range Steps() {
		if rapid.IntRange(0, 5).Draw(t, step) == 0 {
			o.Without = append(o.Without, step)
		}
	}
	return o
}

func TestPlansKeepTheirPromises(t *testing.T) {
	feasible := 0
	rapid.Check(t, func(t *rapid.T) {
		problem, o := drawProblem(t), drawOptions(t)
		p := Solve(problem, o)
		if p.Status == Infeasible {
			require.NotEmpty(t, p.Reason)
			return
		}
		feasible++
		checkPlan(t, problem, o, p)
	})
	assert.NotZero(t, feasible)
}

func checkPlan(t *rapid.T, problem Problem, o Options, p Plan) {
	rates := problem.Pipeline.Rates()
	budgets := map[string]time.Duration{}
	cost := 0.0
	for i, m := range p.Modules {
		require.Equal(t, problem.Pipeline.Modules[i].Name, m.Name, "modules stand as declared")
		budgets[m.Name] = m.Budget
		cost += m.Cost
		require.InDelta(t, rates[m.Name], m.Rate, 1e-9)
		require.LessOrEqual(t, m.WorstCase, m.Budget)
		checkGroups(t, problem, o, m)
	}
	require.InDelta(t, cost, p.Cost, 1e-9*(1+cost))
	for _, h := range problem.Hardware {
		if h.Count > 0 {
			require.LessOrEqual(t, p.machines(h.Name), float64(h.Count)*(1+1e-6), "as many %s as exist", h.Name)
		}
	}
	_, long, err := problem.Pipeline.LongestPath(func(name string) time.Duration { return budgets[name] })
	require.NoError(t, err)
	require.LessOrEqual(t, long, p.SLO, "budgets along every path add up to at most the SLO")
	require.LessOrEqual(t, p.Latency, p.SLO)
	require.False(t, math.IsNaN(p.Cost) || math.IsInf(p.Cost, 0))
}

func checkGroups(t *rapid.T, problem Problem, o Options, m Module) {
	served, dummies, cost := 0.0, 0.0, 0.0
	for _, g := range m.Groups {
		served += g.Rate
		dummies += g.DummyRate
		capacity := g.Machines * float64(g.Batch*g.Concurrency) / g.Duration.Seconds()
		require.LessOrEqual(t, g.Rate+g.DummyRate, capacity*(1+1e-6))
		require.LessOrEqual(t, g.Window+g.Duration, m.Budget, "window and duration fit into the budget")
		require.GreaterOrEqual(t, g.Window, time.Duration(0))
		require.GreaterOrEqual(t, g.Rate, 0.0)
		for _, h := range problem.Hardware {
			if h.Name == g.Hardware {
				cost += h.Price * g.Machines
			}
		}
	}
	require.InDelta(t, m.Rate, served, 1e-6*(1+m.Rate), "every real request is served")
	require.InDelta(t, m.DummyRate, dummies, 1e-6*(1+m.DummyRate))
	require.InDelta(t, cost, m.Cost, 1e-9*(1+cost))
	if o.without("dummy") {
		require.Zero(t, m.DummyRate)
	}
	if o.without("multi") {
		kinds := map[string]bool{}
		for _, g := range m.Groups {
			kinds[fmt.Sprint(g.Hardware, g.Batch)] = true
		}
		require.LessOrEqual(t, len(kinds), 2)
	}
	if o.without("multi:one") && o.Policy == PolicyHarpagon {
		for _, g := range m.Groups {
			require.Equal(t, m.Groups[0].Batch, g.Batch)
			require.Equal(t, m.Groups[0].Hardware, g.Hardware)
		}
	}
}

func TestTheTwoStepsMakeTheWholePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem, o := drawProblem(t), drawOptions(t)
		whole := Solve(problem, o)
		budgets, err := SplitLatency(problem, o)
		if err != nil {
			require.Equal(t, Infeasible, whole.Status)
			return
		}
		encoded, err := json.Marshal(budgets)
		require.NoError(t, err)
		var decoded Budgets
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		steps, err := ScheduleModules(problem, o, decoded)
		if err != nil {
			require.Equal(t, Infeasible, whole.Status)
			return
		}
		require.Equal(t, whole, steps)
	})
}

// Prices only scale: at double prices the same plan costs double.
func TestDoublePricesDoubleTheCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawProblem(t)
		single := Solve(problem, asPaper)
		for i := range problem.Hardware {
			problem.Hardware[i].Price *= 2
		}
		double := Solve(problem, asPaper)
		require.Equal(t, single.Status, double.Status)
		require.InEpsilon(t, 1+2*single.Cost, 1+double.Cost, 1e-9)
	})
}

func TestStepsOfTheRefinementNeverCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawProblem(t)
		for i := range problem.Hardware {
			problem.Hardware[i].Count = 0 // which kinds run out depends on the plan
		}
		full := Solve(problem, asPaper)
		for _, step := range []string{"reassign", "merge", "direct"} {
			without := Solve(problem, Options{Policy: PolicyHarpagon, CostModel: CostProportional, Without: []string{step}})
			if without.Status == Infeasible || step == "reassign" {
				continue // with other budgets the greedy steps may end elsewhere
			}
			require.LessOrEqual(t, full.Cost, without.Cost*(1+1e-9), "without %s it is cheaper", step)
		}
	})
}

func TestJSONRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Solve(drawProblem(t), drawOptions(t))
		p.SolveTime = time.Duration(rapid.Int64Range(0, int64(100*24*time.Hour)).Draw(t, "solve"))
		encoded, err := json.Marshal(p)
		require.NoError(t, err)
		var back Plan
		require.NoError(t, json.Unmarshal(encoded, &back))
		require.Equal(t, p, back)
	})
}

// TestOneModuleAgainstTheBestSingleConfiguration compares with a twin that
// tries every configuration on its own, dummy requests included, as the cost
// model allows: the least p·d / min(b/T, L-d). No policy can be cheaper.
func TestOneModuleAgainstTheBestSingleConfiguration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawProblem(t)
		problem.Pipeline.Modules = problem.Pipeline.Modules[:1]
		p := Solve(problem, asPaper)
		if p.Status == Infeasible || problem.Pipeline.Rate == 0 {
			return
		}
		list, err := configs(&problem, &problem.Pipeline.Modules[0], asPaper)
		require.NoError(t, err)
		best := math.Inf(1)
		for _, c := range list {
			if left := problem.Pipeline.SLO - c.duration; left > 0 {
				period := math.Min(float64(c.batch)/p.Modules[0].Rate, left.Seconds())
				best = math.Min(best, c.price*c.duration.Seconds()/period)
			}
		}
		require.GreaterOrEqual(t, p.Cost, best*(1-1e-6))
	})
}

// TestQuantizedAgainstAllBudgets compares the search with its exhaustive twin.
func TestQuantizedAgainstAllBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := drawProblem(t)
		problem.Pipeline.Modules = problem.Pipeline.Modules[:min(4, len(problem.Pipeline.Modules))]
		step := problem.Pipeline.SLO/time.Duration(rapid.IntRange(4, 8).Draw(t, "steps")) + 1
		p, err := newPlanner(&problem, Options{Policy: PolicyHarpagon, CostModel: CostProportional, Without: []string{"reassign"}})
		require.NoError(t, err)
		found, ok := p.quantized(step)
		best := allBudgets(p, step, make([]time.Duration, len(p.modules)), 0)
		require.Equal(t, !math.IsInf(best, 1), ok)
		if ok {
			require.LessOrEqual(t, p.dag.longest(found), problem.Pipeline.SLO)
			sets, err := p.schedule(found)
			require.NoError(t, err)
			require.InDelta(t, best, total(sets), 1e-6*(1+best))
		}
	})
}

func allBudgets(p *planner, step time.Duration, budgets []time.Duration, i int) float64 {
	if i == len(budgets) {
		if p.dag.longest(budgets) > p.pipe.SLO {
			return math.Inf(1)
		}
		sum := 0.0
		for k, m := range p.modules {
			set, ok := m.solve(budgets[k])
			if !ok {
				return math.Inf(1)
			}
			sum += set.weight
		}
		return sum
	}
	best := math.Inf(1)
	for budgets[i] = step; budgets[i] <= p.pipe.SLO; budgets[i] += step {
		best = math.Min(best, allBudgets(p, step, budgets, i+1))
	}
	return best
}
