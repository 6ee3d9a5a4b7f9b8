package functions

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMBSSearches: eleven tries find a plan wherever there is one, never one that
// is cheaper than the best under the same grouping; the same seed finds the same.
func TestMBSSearches(t *testing.T) {
	equal, more, other := 0, 0.0, 0
	const inputs = 60
	for i := range inputs {
		p := drawn(5, i, 8)
		best, err := Solve(p, Options{Policy: PolicyMBSOptimal})
		require.NoError(t, err)
		found, err := Solve(p, Options{Policy: PolicyMBS})
		require.NoError(t, err)
		require.Equal(t, best.Status, found.Status, "input %d", i)
		if best.Status == Infeasible {
			continue
		}
		require.True(t, found.Sound, "input %d", i)
		require.GreaterOrEqual(t, found.CostPerRequest, best.CostPerRequest*(1-1e-9), "input %d", i)
		again, err := Solve(p, Options{Policy: PolicyMBS})
		require.NoError(t, err)
		require.Equal(t, found, again, "input %d", i)
		apart, err := Solve(p, Options{Policy: PolicyMBS, Seed: 1})
		require.NoError(t, err)
		if apart.CostPerRequest != found.CostPerRequest {
			other++
		}
		if found.CostPerRequest <= best.CostPerRequest*(1+1e-9) {
			equal++
		}
		more += found.CostPerRequest/best.CostPerRequest - 1
	}
	t.Logf("mbs+ costs %.1f %% more than its optimum on average, and finds it on %d of %d inputs", 100*more/inputs, equal, inputs)
	assert.Positive(t, more)
	assert.Positive(t, other, "another seed searches elsewhere")
}

// TestMBSOfFew: where eleven functions keep the objectives or fewer, all are tried.
func TestMBSOfFew(t *testing.T) {
	s := newPlanner(ask(0.8, 10))
	keep := []int{7, 500, 900, 1500}
	o := s.try(append([]int{}, keep...), rand.New(rand.NewPCG(0, 0)))
	require.NotNil(t, o)
	for _, i := range keep {
		assert.LessOrEqual(t, o.Cost, s.catalogue.offers[i].Cost)
	}
	assert.Nil(t, s.try(nil, rand.New(rand.NewPCG(0, 0))))
}
