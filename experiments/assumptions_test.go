package experiments_test

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments"
)

// TestAssumptionsAreWhole: each has a source, and figures that are made.
func TestAssumptionsAreWhole(t *testing.T) {
	all, seen := experiments.All(), map[string]bool{}
	for _, a := range experiments.Assumptions() {
		assert.False(t, seen[a.Name], a.Name)
		seen[a.Name] = true
		for _, text := range []string{a.What, a.Source, a.Systems} {
			assert.NotEmpty(t, text, a.Name)
		}
		for _, id := range a.Figures {
			assert.True(t, slices.ContainsFunc(all, func(f experiments.Figure) bool { return f.ID == id }), "%s: %s", a.Name, id)
		}
		for _, as := range a.As {
			assert.Contains(t, []string{experiments.AsPaper, experiments.AsAuthors}, as, a.Name)
			assert.False(t, a.Untried, a.Name)
		}
	}
	held, err := experiments.Assume(experiments.AsOurs)
	require.NoError(t, err)
	assert.Empty(t, held)
	_, err = experiments.Assume("theirs")
	assert.ErrorContains(t, err, `there is no profile "theirs" of assumptions; there is paper, authors, ours`)
}

// TestEveryAssumptionIsPlayed: what can be tried changes some number of each of its
// figures that is quick to make.
func TestEveryAssumptionIsPlayed(t *testing.T) {
	for _, f := range experiments.All() {
		if slices.Contains(long, f.ID) || slices.Contains(longer, f.ID) {
			continue
		}
		var ours []experiments.Row
		for _, a := range experiments.AssumptionsOf(f.ID) {
			if a.Untried {
				continue
			}
			rows := func(held ...string) []experiments.Row {
				r, err := f.Run(t.Context(), &experiments.Env{Quick: true, Assumed: held})
				require.NoError(t, err)
				return r.Rows
			}
			if ours == nil {
				ours = rows()
			}
			assert.NotEqual(t, ours, rows(a.Name), "%s, %s", f.ID, a.Name)
		}
	}
}

// TestFiguresAssumeTheirOwn: a profile holds the assumptions of all papers, a figure its own.
func TestFiguresAssumeTheirOwn(t *testing.T) {
	held, err := experiments.Assume(experiments.AsPaper)
	require.NoError(t, err)
	for id, want := range map[string][]string{"harpagon/table2": nil, "harpagon/figure7": {"dense-regime", "speeds-by-module", "dt-1.5d"}} {
		r, err := experiments.Find(experiments.All(), id)[0].Run(t.Context(), &experiments.Env{Quick: true, Assumed: held})
		require.NoError(t, err)
		assert.Equal(t, want, r.Held, id)
	}
}

// TestDocsTellTheRecordedGaps: the page holds the sentence of each gap that was recorded and
// remains, and no other.
func TestDocsTellTheRecordedGaps(t *testing.T) {
	known, err := experiments.Known()
	require.NoError(t, err)
	text, err := os.ReadFile("../docs/results/papers.md")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, a := range experiments.Assumptions() {
		names[a.Name] = true
	}
	lines := strings.Split(string(text), "\n")
	want := map[string]bool{}
	for _, x := range known {
		for _, g := range x.Gaps {
			if x.ID != "harmonybatch/table4" && math.Abs(g.AsPaper/g.Paper-1) > experiments.Far { // table 4 holds times
				want[g.Known()] = true
				assert.True(t, slices.ContainsFunc(lines, func(line string) bool {
					return strings.HasPrefix(line, "| "+g.System+", "+g.Metric) && strings.HasSuffix(line, " | "+g.Known()+" |")
				}), "%s: %s; task bench:papers writes the page anew", x.ID, g.Describe())
			}
			for _, one := range append(g.Alone, experiments.Trial{Assumed: g.Untried}) {
				for _, name := range one.Assumed {
					assert.True(t, names[name], "%s: %s", x.ID, name)
				}
			}
		}
	}
	for _, row := range experiments.Glossary(experiments.All()).Rows {
		assert.True(t, strings.Contains(string(text), "| "+strings.Join(row, " | ")+" |"), "task bench:papers writes the page anew: %s", row[0])
	}
	for _, line := range lines {
		cells := strings.Split(line, " | ")
		if len(cells) != 5 || strings.Contains(line, "computation time") || strings.Contains(line, "---") || cells[1] == "ours" {
			continue
		}
		if last := strings.TrimSuffix(cells[4], " |"); strings.Trim(last, " |") != "" && len(strings.Trim(cells[3], "0123456789.")) == 0 {
			assert.True(t, want[last], "written by hand, or of another run: %s", line)
		}
	}
}
