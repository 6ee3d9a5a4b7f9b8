package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Section II: M1 at 100 requests per second under 0.4 s. Round robin allows
// batch 4 and needs five machines.
func TestOneConfigurationAnswersInTwiceItsDuration(t *testing.T) {
	for _, policy := range []string{PolicyInferLine, PolicyClipper} {
		p := Solve(oneModule(tableM1(), 100, 400*time.Millisecond), Options{Policy: policy, CostModel: CostProportional})
		require.Equal(t, Feasible, p.Status, p.Reason)
		assert.InDelta(t, 5, p.Cost, 1e-9)
		assert.Equal(t, 4, p.Modules[0].Groups[0].Batch)
		assert.Equal(t, 400*time.Millisecond, p.Latency)
		assert.True(t, p.Sound)
	}
}

// At 2 requests per second a batch of 4 takes 2 s to come, not 0.2 s.
func TestABaselineMayClaimWhatNobodyKeeps(t *testing.T) {
	p := Solve(oneModule(tableM1(), 2, 400*time.Millisecond), Options{Policy: PolicyClipper, CostModel: CostProportional})
	require.Equal(t, Feasible, p.Status, p.Reason)
	assert.False(t, p.Sound)
	assert.Equal(t, 2200*time.Millisecond, p.Modules[0].Proven.Round(time.Microsecond))
}

func TestBaselinesHaveNoSteps(t *testing.T) {
	err := Options{Policy: PolicyClipper, Without: []string{"tc"}}.Check()
	assert.EqualError(t, err, "plan: policy clipper has one way to split and no steps to switch off; take policy harpagon for those")
}

func TestExactIsNeverDearerThanASoundBaseline(t *testing.T) {
	sound := 0
	rapid.Check(t, func(t *rapid.T) {
		problem := drawUnlimited(t)
		best := Solve(problem, Options{Policy: PolicyExact, CostModel: CostProportional})
		for _, policy := range []string{PolicyNexus, PolicyInferLine, PolicyClipper} {
			p := Solve(problem, Options{Policy: policy, CostModel: CostProportional})
			if p.Status == Infeasible {
				continue
			}
			checkPlan(t, problem, Options{Policy: PolicyHarpagon, CostModel: CostProportional, Without: []string{"dummy"}}, p)
			if p.Sound {
				sound++
				require.NotEqual(t, Infeasible, best.Status, best.Reason)
				require.LessOrEqual(t, best.Cost, p.Cost*(1+1e-6))
			}
		}
	})
	assert.NotZero(t, sound)
}

// Table II, S1: six machines at batch 8, the rest at batch 2.
func TestNexusOfTableII(t *testing.T) {
	p := Solve(oneModule(tableM3(), 198, second), Options{Policy: PolicyNexus, CostModel: CostProportional})
	require.Equal(t, Feasible, p.Status, p.Reason)
	assert.InDelta(t, 6.3, p.Cost, 1e-9)
	require.Len(t, p.Modules[0].Groups, 2)
	assert.Equal(t, 8, p.Modules[0].Groups[0].Batch)
	assert.Equal(t, 2, p.Modules[0].Groups[1].Batch)
}

// Twice the duration may take the whole SLO.
func TestTwiceTheDurationMayBeTheWholeSLO(t *testing.T) {
	p := Solve(oneModule(tableM1(), 100, 320*time.Millisecond), Options{Policy: PolicyClipper, CostModel: CostProportional})
	require.Equal(t, Feasible, p.Status, p.Reason)
	assert.Equal(t, 2, p.Modules[0].Groups[0].Batch)
}
