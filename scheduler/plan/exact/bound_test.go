package exact

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// A bound that is not told what the best plan costs holds for it all the same.
func TestSharedBoundHoldsForThePlanThatItDoesNotKnow(t *testing.T) {
	plans, near := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var p plan.Problem
		if rapid.Bool().Draw(t, "pair") {
			p = drawForBrute(t)
		} else {
			p = plantest.DrawFew(t)
		}
		ready, err := plan.Prepare(&p, exactShared, Policy{})
		require.NoError(t, err)
		one := newProblem(ready, nil)
		if one.checkPath() != nil {
			return
		}
		s := newPacker([]*problem{one})
		best, bounds, _ := s.search()
		if best == nil {
			return
		}
		bound := s.bound(bounds[0], 1.05*best.weight)
		require.LessOrEqual(t, bound, best.weight*(1+1e-9))
		if plans++; bound >= best.weight*0.95 {
			near++
		}
	})
	t.Logf("of %d bounds %d are within 5 %% of the plan", plans, near)
	assert.Greater(t, near, plans/2)
}
