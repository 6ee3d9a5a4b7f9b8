package experiments

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments/published"
	"github.com/harpagon/harpagon/internal/testkit"
)

// TestWhatTheTableShows holds for one model and fewer queries what the table of
// docs/results/pools.md shows for all.
func TestWhatTheTableShows(t *testing.T) {
	const ofOracle = 0.95 // least goodput of matching, relative to the oracle
	r, err := measurePool(t.Context(), published.KairosModels()[1], "gamma:10.5", quickQueries)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, r.kairos.Goodput, ofOracle*r.oracle)
	assert.GreaterOrEqual(t, r.exact.Goodput, ofOracle*r.bestOracle)
	assert.Greater(t, r.kairos.Goodput, r.homogeneous)
	assert.Len(t, r.baseline, 3)
	for name, other := range r.baseline {
		assert.Greater(t, r.kairos.Goodput, other, name)
	}
	assert.GreaterOrEqual(t, r.exact.Goodput, r.kairos.Goodput)
	assert.LessOrEqual(t, r.exact.Goodput, r.exact.ProvenBound)
	assert.LessOrEqual(t, r.exact.ProvenBound, r.exact.BestBound)
}

// The figures about searches show what the paper states, on fewer queries.
func TestKairosPlusNeedsFewestEvaluations(t *testing.T) {
	testkit.Long(t)
	t.Parallel()
	r, err := evaluations(t.Context(), &Env{Quick: true})
	require.NoError(t, err)
	count := map[string]float64{}
	for _, row := range r.Rows {
		if row.Metric == "evaluations" {
			count[row.System] = row.Ours
		}
	}
	require.Len(t, count, 4)
	for name, n := range count {
		assert.LessOrEqual(t, count["kairos+"], n, name)
	}
}

// Under another objective and other sizes mixed instances are still worth more than the base alone.
func TestGainsUnderOtherSettings(t *testing.T) {
	r, err := robustness(t.Context(), &Env{Quick: true})
	require.NoError(t, err)
	for _, row := range r.Rows {
		t.Logf("%v %s %.4g", row.Setting, row.Metric, row.Ours)
		if row.Metric == "over the base alone" {
			assert.Greater(t, row.Ours, 1.0, "%v", row.Setting)
		}
	}
}
