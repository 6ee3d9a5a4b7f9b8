package exact

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/plantest"
)

// A bound computed without the cost of the best plan holds for that plan all the same.
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
		s.known = nil
		bound, _ := s.bound(bounds[0], 1.05*best.weight)
		require.LessOrEqual(t, bound, best.weight*(1+1e-9))
		if plans++; bound >= best.weight*0.95 {
			near++
		}
	})
	t.Logf("of %d bounds %d are within 5 %% of the plan", plans, near)
	assert.Greater(t, near, plans/2)
}

// The bound of columns is above no plan: of one pipeline or of several together, found by
// the search or by brute force.
func TestColumnsHoldForEveryPlan(t *testing.T) {
	plans, near, all := 0, 0, drawLess(t)
	rapid.Check(t, func(t *rapid.T) {
		var able []*problem
		least := math.Inf(1)
		add := func(p plan.Problem) {
			ready, err := plan.Prepare(&p, exactShared, Policy{})
			require.NoError(t, err)
			if one := newProblem(ready, nil); one.checkPath() == nil {
				able = append(able, one)
			}
		}
		if rapid.Bool().Draw(t, "brute") {
			p := drawForBrute(t)
			least = bruteShared(&p)
			add(p)
		} else {
			first := plantest.DrawUnlimitedFew(t)
			add(first)
			for range rapid.IntRange(0, 1).Draw(t, "others") {
				other := plantest.DrawUnlimitedFew(t)
				if sameHardware(&first, &other) {
					add(other)
				}
			}
		}
		if len(able) == 0 {
			return
		}
		s := newPacker(able)
		s.known = &wholeBound{} // so that it is not computed
		best, _, _ := s.search()
		if best == nil {
			return
		}
		least = math.Min(least, best.weight)
		problems, kinds := s.bounded()
		columns, _ := boundColumns(problems, kinds, 0, 2*least)
		require.LessOrEqual(t, columns, least*(1+1e-9))
		if plans++; columns >= 0.8*least {
			near++
		}
	})
	t.Logf("%d of %d bounds are within 20 %% of the plan", near, plans)
	if all {
		assert.Greater(t, near, plans/5)
	}
}
