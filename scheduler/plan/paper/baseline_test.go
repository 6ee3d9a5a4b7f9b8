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

// Section II: M1 at 100 requests per second under 0.4 s. Round robin allows
// batch 4 and needs five machines.
func TestOneConfigurationAnswersInTwiceItsDuration(t *testing.T) {
	for _, policy := range []string{plan.PolicyInferLine, plan.PolicyClipper} {
		p := solve(plantest.OneModule(plantest.TableM1(), 100, 400*time.Millisecond), plan.Options{Policy: policy, CostModel: plan.CostProportional})
		require.Equal(t, plan.Feasible, p.Status, p.Reason)
		assert.InDelta(t, 5, p.Cost, 1e-9)
		assert.Equal(t, 4, p.Modules[0].Groups[0].Batch)
		assert.Equal(t, 400*time.Millisecond, p.Latency)
		assert.True(t, p.Sound)
	}
}

// At 2 requests per second a batch of 4 takes 2 s to come, not 0.2 s.
func TestABaselineMayClaimWhatNobodyKeeps(t *testing.T) {
	p := solve(plantest.OneModule(plantest.TableM1(), 2, 400*time.Millisecond), plan.Options{Policy: plan.PolicyClipper, CostModel: plan.CostProportional})
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.False(t, p.Sound)
	assert.Equal(t, 2200*time.Millisecond, p.Modules[0].Proven.Round(time.Microsecond))
}

func TestBaselinesHaveNoSteps(t *testing.T) {
	err := check(plan.Options{Policy: plan.PolicyClipper, Without: []string{"tc"}})
	assert.EqualError(t, err, "plan: policy clipper has one way to split and no steps to switch off; take policy harpagon for those")
}

func TestExactIsNeverDearerThanASoundBaseline(t *testing.T) {
	sound := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := plantest.DrawUnlimited(t)
		best := solve(problem, plan.Options{Policy: plan.PolicyExact, CostModel: plan.CostProportional})
		for _, policy := range []string{plan.PolicyNexus, plan.PolicyInferLine, plan.PolicyClipper} {
			p := solve(problem, plan.Options{Policy: policy, CostModel: plan.CostProportional})
			if p.Status == plan.Infeasible {
				continue
			}
			plantest.CheckPlan(t, problem, plan.Options{Policy: plan.PolicyHarpagon, CostModel: plan.CostProportional, Without: []string{"dummy"}}, p)
			if p.Sound {
				sound++
				require.NotEqual(t, plan.Infeasible, best.Status, best.Reason)
				require.LessOrEqual(t, best.Cost, p.Cost*(1+1e-6))
			}
		}
	})
	assert.NotZero(t, sound)
}

// Table II, S1: six machines at batch 8, the rest at batch 2.
func TestNexusOfTableII(t *testing.T) {
	p := solve(plantest.OneModule(plantest.TableM3(), 198, second), plan.Options{Policy: plan.PolicyNexus, CostModel: plan.CostProportional})
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.InDelta(t, 6.3, p.Cost, 1e-9)
	require.Len(t, p.Modules[0].Groups, 2)
	assert.Equal(t, 8, p.Modules[0].Groups[0].Batch)
	assert.Equal(t, 2, p.Modules[0].Groups[1].Batch)
}

// Twice the duration may take the whole SLO.
func TestTwiceTheDurationMayBeTheWholeSLO(t *testing.T) {
	p := solve(plantest.OneModule(plantest.TableM1(), 100, 320*time.Millisecond), plan.Options{Policy: plan.PolicyClipper, CostModel: plan.CostProportional})
	require.Equal(t, plan.Feasible, p.Status, p.Reason)
	assert.Equal(t, 2, p.Modules[0].Groups[0].Batch)
}
