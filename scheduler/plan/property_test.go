package plan_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

func drawOptions(t *rapid.T) plan.Options {
	o := plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Split: rapid.SampledFrom([]string{"", "lc", "throughput", "even", "quantized:50ms"}).Draw(t, "split")}
	for _, step := range pipelines.Steps() {
		if rapid.IntRange(0, 5).Draw(t, step) == 0 {
			o.Without = append(o.Without, step)
		}
	}
	return o
}

func TestPlansKeepTheirPromises(t *testing.T) {
	feasible := 0
	rapid.Check(t, func(t *rapid.T) {
		problem, o := plantest.Draw(t), drawOptions(t)
		p := policies.Solve(problem, o)
		if p.Status == plan.Infeasible {
			require.NotEmpty(t, p.Reason)
			return
		}
		feasible++
		plantest.CheckPlan(t, problem, o, p)
	})
	assert.NotZero(t, feasible)
}

func TestTheTwoStepsMakeTheWholePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem, o := plantest.Draw(t), drawOptions(t)
		whole := policies.Solve(problem, o)
		budgets, err := policies.SplitLatency(problem, o)
		if err != nil {
			require.Equal(t, plan.Infeasible, whole.Status)
			return
		}
		encoded, err := json.Marshal(budgets)
		require.NoError(t, err)
		var decoded plan.Budgets
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		steps, err := policies.ScheduleModules(problem, o, decoded)
		if err != nil {
			require.Equal(t, plan.Infeasible, whole.Status)
			return
		}
		require.Equal(t, whole, steps)
	})
}

// Prices only scale: at double prices the same plan costs double.
func TestDoublePricesDoubleTheCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Draw(t)
		single := policies.Solve(problem, asPaper)
		for i := range problem.Hardware {
			problem.Hardware[i].Price *= 2
		}
		double := policies.Solve(problem, asPaper)
		require.Equal(t, single.Status, double.Status)
		require.InEpsilon(t, 1+2*single.Cost, 1+double.Cost, 1e-9)
	})
}

func TestStepsOfTheRefinementNeverCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Draw(t)
		for i := range problem.Hardware {
			problem.Hardware[i].Count = 0 // which kinds run out depends on the plan
		}
		for policy, steps := range map[string][]string{
			plan.PolicyHarpagon: {"dummy", "reassign", "merge", "direct"}, plan.PolicyPiccolo: {"dummy", "reassign"},
		} {
			full := policies.Solve(problem, plan.Options{Policy: policy, CostModel: plan.CostProportional})
			for _, step := range steps {
				without := policies.Solve(problem, plan.Options{Policy: policy, CostModel: plan.CostProportional, Without: []string{step}})
				if without.Status != plan.Infeasible {
					require.LessOrEqual(t, full.Cost, without.Cost*(1+1e-9), "%s: without %s it is cheaper", policy, step)
				}
			}
		}
	})
}

func TestJSONRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policies.Solve(plantest.Draw(t), drawOptions(t))
		p.SolveTime = time.Duration(rapid.Int64Range(0, int64(100*24*time.Hour)).Draw(t, "solve"))
		encoded, err := json.Marshal(p)
		require.NoError(t, err)
		var back plan.Plan
		require.NoError(t, json.Unmarshal(encoded, &back))
		require.Equal(t, p, back)
	})
}

// TestOneModuleAgainstTheBestSingleConfiguration compares with a twin that
// tries every configuration on its own, dummy requests included, as the cost
// model allows: the least p·d / min(b/T, L-d), and p·d·T of a batch of one, which waits for
// nobody. No policy can be cheaper.
func TestOneModuleAgainstTheBestSingleConfiguration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.Draw(t)
		problem.Pipeline.Modules = problem.Pipeline.Modules[:1]
		p := policies.Solve(problem, asPaper)
		if p.Status == plan.Infeasible || problem.Pipeline.Rate == 0 {
			return
		}
		ready, err := plan.Prepare(&problem, asPaper, named(asPaper))
		require.NoError(t, err)
		best := math.Inf(1)
		for _, c := range ready.Modules[0].Configs {
			if left := problem.Pipeline.SLO - c.Duration; left > 0 {
				period := float64(c.Batch) / p.Modules[0].Rate
				if c.Batch > 1 {
					period = math.Min(period, left.Seconds())
				}
				best = math.Min(best, c.Price*c.Duration.Seconds()/period)
			}
		}
		require.GreaterOrEqual(t, p.Cost, best*(1-1e-6))
	})
}
