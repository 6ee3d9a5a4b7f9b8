package experiments_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments"
)

// long lists figures of which even a quick look takes a while; tests of their
// packages look at their parts.
var long = []string{"symphony/mixed", "symphony/models", "symphony/bursts", "symphony/devices"}

// longer are those that HARPAGON_LONG makes, too: together they take twenty times as long as
// all others.
var longer = []string{
	"dispatching/dropping", "dispatching/overload", "dispatching/speed", "dispatching/together", "dispatching/waves",
	"kairos/division", "kairos/figure11", "kairos/figure12", "kairos/figure15", "kairos/goodput",
	"piccolo/figure4", "planning/growth", "planning/policies",
	"simulating/early", "simulating/promises",
	"symphony/cores", "symphony/drawn", "symphony/figure1", "symphony/figure10", "symphony/figure13", "symphony/figure14", "symphony/figure15",
	"symphony/figure4", "symphony/figure6", "symphony/table4",
}

// TestFiguresRun makes a small part of every figure: there are rows, no two of
// them are about the same, its tables hold all of them, what is to be drawn is
// there, and what is far from the printed numbers has a cause.
func TestFiguresRun(t *testing.T) {
	began := time.Now()
	for _, f := range experiments.All() {
		if slices.Contains(long, f.ID) || os.Getenv("HARPAGON_LONG") == "" && slices.Contains(longer, f.ID) {
			continue
		}
		t.Run(f.ID, func(t *testing.T) {
			start := time.Now()
			r, err := f.Run(t.Context(), &experiments.Env{Quick: true, Clock: func() time.Duration { return time.Since(began) }})
			require.NoError(t, err)
			require.NotEmpty(t, r.Rows)
			seen, drawn := map[string]bool{}, 0
			for _, row := range r.Rows {
				name := fmt.Sprint(row.Setting, row.System, row.Metric, row.Unit)
				assert.False(t, seen[name], "twice: %s", name)
				seen[name] = true
				if p := f.Picture; p != nil && row.Metric == p.Metric {
					_, ok := row.Setting.Number(p.X)
					assert.True(t, ok, "%s is no number of %s", p.X, name)
					drawn++
				}
			}
			assert.Equal(t, f.Picture != nil, drawn > 0)
			numbers := 0
			for _, g := range f.Tables(r) {
				numbers += g.Numbers
			}
			assert.Equal(t, len(r.Rows), numbers, "rows that hide each other")
			assert.Empty(t, r.Unexplained())
			for _, note := range r.Notes {
				assert.NotContains(t, note, "DEFECT")
			}
			t.Logf("%d rows in %v\n%s", len(r.Rows), time.Since(start), f.Text(r))
		})
	}
}

func TestFind(t *testing.T) {
	all := experiments.All()
	for _, id := range slices.Concat(long, longer) {
		assert.Len(t, experiments.Find(all, id), 1, id)
	}
	assert.Len(t, experiments.Find(all, "symphony/table4"), 1)
	assert.Greater(t, len(experiments.Find(all, "symphony")), 5)
	assert.Empty(t, experiments.Find(all, "symphony/t"))
	assert.Empty(t, experiments.Find(all, ""))
}
