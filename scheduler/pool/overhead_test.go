package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// At the goodput of a plan that counts the overhead of queries beyond the profile they are
// in time in spite of it; at that of a plan that does not, they are not.
func TestPlansKnowTheOverheadOfQueries(t *testing.T) {
	const way, queries = 5 * time.Millisecond, 4000
	blind := searched()
	blind.Pool.Arrivals = "poisson"
	known := blind
	known.Pool.Overhead = way
	attained := func(planned Problem) float64 {
		plan := Solve(planned, Options{Queries: queries, Policy: PolicyKairos})
		require.Equal(t, Feasible, plan.Status, plan.Reason)
		r, err := Simulate(known, plan, SimulateOptions{Rate: plan.Goodput, Duration: time.Duration(queries / plan.Goodput * float64(time.Second))})
		require.NoError(t, err)
		return r.Pipelines[0].Attainment
	}
	assert.GreaterOrEqual(t, attained(known), 0.985, "99 %, by another draw of queries")
	assert.Less(t, attained(blind), 0.985)
}

// A size that is so rare that no query drawn has it leaves the bound as it is.
func TestASizeThatWasNotDrawnChangesNoBound(t *testing.T) {
	o := Options{Queries: 1000, Policy: PolicyKairos}
	without := Solve(searched(), o)
	rare := searched()
	rare.Pool.Sizes = append(pipelines.Mix{{Size: 1, Weight: 1e-12}}, rare.Pool.Sizes...)
	with := Solve(rare, o)
	require.Positive(t, without.Goodput)
	assert.InEpsilon(t, without.Goodput, with.Goodput, 0.05)
	assert.InEpsilon(t, without.ProvenBound, with.ProvenBound, 0.05)
}
