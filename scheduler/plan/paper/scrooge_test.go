package paper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// The machines of one configuration collect together: d·(1 + 1/n).
func TestScroogeCollectsByConfiguration(t *testing.T) {
	rule := byConfiguration{}
	c := of(plantest.Point(8, 250)) // 32 a second
	for rate, want := range map[float64]time.Duration{32: 500e6, 64: 375e6, 90: 375e6, 128: 312500e3} {
		assert.Equal(t, want, rule.full(c, rate), "%v", rate)
	}
	// Less than one machine's rate: it collects what it gets.
	assert.Equal(t, 750*time.Millisecond, rule.full(c, 16))
}

// M3 of Table II: six machines at batch 8 as under 2d, because four machines at
// batch 32 need 0.8·1.25 = 1 s, which the objective allows; the rest at batch 2.
func TestScroogeOfTableII(t *testing.T) {
	p := solve(plantest.OneModule(plantest.TableM3(), 198, second), plan.Options{Policy: plan.PolicyScrooge, CostModel: plan.CostProportional})
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.InDelta(t, 5.9, p.Cost, 1e-9)
	assert.Equal(t, second, p.Modules[0].WorstCase)

	p = solve(plantest.OneModule(plantest.TableM3(), 198, 999*time.Millisecond), plan.Options{Policy: plan.PolicyScrooge, CostModel: plan.CostProportional})
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.InDelta(t, 6.3, p.Cost, 1e-9, "under 1 s only what Nexus does")
}

// Theorem 1 never promises more time than d + b/t, and that not more than 2d.
func TestScroogeLiesBetweenHarpagonAndNexus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := of(plantest.Point(rapid.IntRange(1, 64).Draw(t, "batch"), rapid.Float64Range(1, 500).Draw(t, "ms")))
		rate := c.Throughput() * rapid.Float64Range(1, 20).Draw(t, "machines")
		tc := throughputCost{}.full(c, rate)
		dt := byConfiguration{}.full(c, rate)
		require.LessOrEqual(t, tc, dt)
		require.LessOrEqual(t, dt, 2*c.Duration+1)
	})
}

func TestScroogeKeepsItsPromises(t *testing.T) {
	feasible := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawConcurrent(t)
		p := solve(problem, plan.Options{Policy: plan.PolicyScrooge, CostModel: plan.CostProportional})
		if p.Status == plan.Infeasible {
			require.NotEmpty(t, p.Reason)
			return
		}
		feasible++
		plantest.CheckPlan(t, problem, plan.Options{Without: []string{"dummy"}}, p)
	})
	assert.NotZero(t, feasible)
}

// TestCustom: full machines of a custom Scrooge answer within 1.5 d, whatever their number.
func TestCustom(t *testing.T) {
	own := plan.Options{Policy: plan.PolicyScrooge, CostModel: plan.CostProportional}
	problem := plantest.OneModule(plantest.TableM3(), 198, second)
	p := solveCustom(problem, Custom{Base: plan.PolicyScrooge, Multiple: 1.5}, own)
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.Equal(t, 8, p.Modules[0].Groups[0].Batch, "batch 32 needs 1.5 · 0.8 s, longer than the objective")
	assert.Equal(t, 32, solve(problem, own).Modules[0].Groups[0].Batch, "d(1 + 1/n) = 0.8 · 1.25")

	whole := plan.Options{Policy: plan.PolicyPiccolo, CostModel: plan.CostProportional}
	filled := solveCustom(problem, Custom{Base: plan.PolicyPiccolo, Fill: true}, whole)
	assert.Less(t, filled.Cost, solve(problem, whole).Cost, "2 dummy requests fill a machine, and b/(L - d) wants 122")
}

func solveCustom(p plan.Problem, c Custom, o plan.Options) plan.Plan {
	o = c.Options(o)
	return plan.Solve(p, o, o.Policies[o.Policy])
}
