package experiments_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments"
)

func quickly(t *testing.T, id string) experiments.Result {
	all := experiments.All()
	i := slices.IndexFunc(all, func(f experiments.Figure) bool { return f.ID == id })
	require.GreaterOrEqual(t, i, 0, id)
	r, err := all[i].Run(context.Background(), &experiments.Env{Quick: true})
	require.NoError(t, err)
	return r
}

func value(t *testing.T, r experiments.Result, system, metric string) float64 {
	i := slices.IndexFunc(r.Rows, func(row experiments.Row) bool { return row.System == system && row.Metric == metric })
	require.GreaterOrEqual(t, i, 0, "%s, %s", system, metric)
	return r.Rows[i].Ours
}

func TestTableIIIsThatOfThePaper(t *testing.T) {
	r := quickly(t, "harpagon/table2")
	require.Len(t, r.Rows, 4)
	for _, row := range r.Rows {
		assert.InDelta(t, *row.Paper, row.Ours, 1e-9, row.System)
	}
}

// Wherever a full machine of a system keeps its rule there is a plan: what is left over
// runs in batches of one.
func TestSystemsHavePlansInThePapersRegime(t *testing.T) {
	r := quickly(t, "harpagon/figure5")
	for _, name := range []string{"nexus", "scrooge", "inferline"} {
		assert.GreaterOrEqual(t, value(t, r, name, "plans"), 98.0, name)
		assert.Greater(t, value(t, r, name, "average cost"), 1.0, name)
	}
}

// One step less must not be a bargain.
func TestOneStepLessIsNoBargain(t *testing.T) {
	for _, id := range []string{"harpagon/figure6", "piccolo/figure5"} {
		r := quickly(t, id)
		for _, row := range r.Rows {
			if row.Metric == "average cost" {
				assert.Greater(t, row.Ours, 0.95, "%s: %s", id, row.System)
			}
			if row.Metric == "cheaper" && (row.System == "Harp-1c" || row.System == "Picc-1bpc") {
				assert.Less(t, row.Ours, 5.0, "%s: %s", id, row.System)
			}
		}
	}
}

// TC dispatch has the shortest worst case of the three rules.
func TestOtherDispatchTakesLonger(t *testing.T) {
	for id, paper := range map[string]string{"harpagon/figure7": "Harp", "piccolo/figure8": "Picc"} {
		r := quickly(t, id)
		two, apart := value(t, r, paper+"-2d", "worst case over that of TC dispatch"), value(t, r, paper+"-dt", "worst case over that of TC dispatch")
		assert.Greater(t, two, apart, id)
		assert.GreaterOrEqual(t, apart, 1.0, id)
	}
}
