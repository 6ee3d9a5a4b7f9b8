package experiments_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments"
)

func example() (experiments.Figure, experiments.Result) {
	var r experiments.Result
	for _, load := range []float64{1, 2.5} {
		at := experiments.Set("arrivals", "even", "load", load)
		r.AddPrinted(at, "ours", "goodput", "1/s", 1000*load, 900)
		r.Add(at, "theirs", "goodput", "1/s", 0.5)
		r.Add(at, "ours", "late", "%", load)
	}
	r.Add(experiments.Set("arrivals", "even", "load", 9), "ours", "late", "%", math.NaN())
	r.AddPrinted(experiments.Set("arrivals", "even", "load", 9), "ours", "late", "%", 9, 10)
	r.Note("That is %s.", "all")
	r.Gaps = []experiments.Gap{{Setting: "even, 1", System: "ours", Metric: "goodput", Paper: 900, Ours: 1000, AsPaper: 900}, {
		Setting: "even, 2.5", System: "ours", Metric: "goodput", Paper: 900, Ours: 2500, AsPaper: 2500,
		Alone: []experiments.Trial{{Assumed: []string{"haste"}, Ours: 1500}}, Best: &experiments.Trial{Assumed: []string{"haste"}, Ours: 1500},
	}}
	return experiments.Figure{ID: "a/b", Title: "An example", Layout: experiments.Layout{Down: []string{"load"}, Across: []string{experiments.System}}}, r
}

func TestMarkdown(t *testing.T) {
	f, r := example()
	assert.Equal(t, `## An example

goodput (1/s), arrivals even:

| load | ours | paper | theirs |
| --- | ---: | ---: | ---: |
| 1 | 1000 | 900 | 0.5 |
| 2.5 | 2500 | 900 | 0.5 |

late (%), arrivals even:

| load | ours | paper |
| --- | ---: | ---: |
| 1 | 1 | - |
| 2.5 | 2.5 | - |
| 9 | 9 | 10 |

That is all.

Not as printed: ours, goodput, even, 2.5: 900 is printed; 2500 as the paper; open: 62 % closed by haste (1500).
`, f.Markdown(r))
}

// TestPrinted: a line for each number that the paper prints, and none for the others.
func TestPrinted(t *testing.T) {
	f, r := example()
	assert.Equal(t, `## An example [a/b]

| number | ours | paper | ratio | where it is far, what is known |
| --- | ---: | ---: | ---: | --- |
| ours, goodput (1/s), even, load 1 | 1000 | 900 | 1.111 |  |
| ours, goodput (1/s), even, load 2.5 | 2500 | 900 | 2.778 | open: 62 % closed by haste (1500) |
| ours, late (%), even, load 9 | 9 | 10 | 0.9 |  |

That is all.
`, f.Markdown(r.Printed()))
	assert.Len(t, f.Tables(r), 2, "rows of the whole stay")
	r.Gaps = nil
	assert.Contains(t, f.Text(r.Printed()), "ours, goodput (1/s), even, load 2.5  2500    900  2.778  not looked into yet")
}

// TestGaps: what is far from the printed numbers is described, or named as not looked into.
func TestGaps(t *testing.T) {
	_, r := example()
	assert.Empty(t, r.Unexplained())
	r.Gaps = nil
	assert.Len(t, r.Unexplained(), 1, "1000 for 900 is near")
	assert.Equal(t, []string{"That is all.", "Not as printed: ours, goodput, even, 2.5: not looked into yet."}, r.Sentences())
}

// TestDescribeGap: met by the fewest assumptions, open where they close little of it.
func TestDescribeGap(t *testing.T) {
	trial := func(ours float64, assumed ...string) experiments.Trial {
		return experiments.Trial{Assumed: assumed, Ours: ours}
	}
	met := trial(1.9, "a", "b")
	for want, g := range map[string]experiments.Gap{
		"s, m: 2 is printed; 1.9 as the paper; 1 on our terms; met with a and b (1.9).": {Best: &met},
		"s, m: 2 is printed; 1.9 as the paper; 1 on our terms; open: no assumption closes a quarter of it; cannot be tried: c.": {
			Alone: []experiments.Trial{trial(1.1, "a")}, Untried: []string{"c"}},
		"s, m: 2 is printed; 1.9 as the paper; 1 on our terms; open.": {},
		"s, m: 2 is printed; 1.9 as the paper; 2.1 on our terms; met there, and not with b (1.1).": {
			Ours: 2.1, Alone: []experiments.Trial{trial(2, "a"), trial(1.1, "b")}, Best: &met},
	} {
		g.System, g.Metric, g.Paper, g.Ours, g.AsPaper = "s", "m", 2, cmp.Or(g.Ours, 1), 1.9
		assert.Equal(t, want, g.Describe())
	}
}

// TestExplain finds the one assumption that a figure hangs on.
func TestExplain(t *testing.T) {
	f := experiments.Figure{ID: "harpagon/figure7", Run: func(_ context.Context, e *experiments.Env) (r experiments.Result, _ error) {
		ours := 1.0
		if e.Holds("dt-1.5d") {
			ours = 1.4
		}
		r.AddPrinted(nil, "Harp-dt", "worst case", "", ours, 1.428)
		r.AddPrinted(nil, "Harp-2d", "worst case", "", 2, 1.9)
		return r, nil
	}}
	x, err := f.Explain(t.Context(), &experiments.Env{})
	require.NoError(t, err)
	require.Len(t, x.Gaps, 1, "the other is met")
	assert.Equal(t, experiments.Trial{Assumed: []string{"dt-1.5d"}, Ours: 1.4}, *x.Gaps[0].Best)
	assert.Len(t, x.Gaps[0].Alone, len(experiments.AssumptionsOf(f.ID)))
}

func TestText(t *testing.T) {
	f, r := example()
	assert.Contains(t, f.Text(r), "An example [a/b]\n\ngoodput (1/s), arrivals even\n  load  ours  paper  theirs\n  1     1000    900     0.5\n")
}

func TestLedger(t *testing.T) {
	_, r := example()
	none := experiments.Result{}
	none.Add(nil, "ours", "goodput", "1/s", 1)
	g := experiments.Ledger([]experiments.Made{{ID: "a/b", Took: 1500 * time.Millisecond, Rows: r.Rows}, {ID: "a/c", Rows: none.Rows}})
	assert.Equal(t, []string{"figure", "seconds", "printed", "within 15 %", "least ratio", "largest"}, g.Header)
	assert.Equal(t, [][]string{{"a/b", "1.5", "3", "2", "0.9", "2.778"}, {"a/c", "0.0", "0", "-", "-", "-"}}, g.Rows)
}

func TestCSV(t *testing.T) {
	_, r := example()
	var b strings.Builder
	require.NoError(t, experiments.WriteCSV(&b, r))
	assert.Equal(t, "arrivals,load,system,metric,unit,ours,paper\neven,1,ours,goodput,1/s,1000,900\n", strings.Join(strings.SplitAfter(b.String(), "\n")[:2], ""))
}

func TestJSON(t *testing.T) {
	_, r := example()
	text, err := json.Marshal(r.Rows[:2])
	require.NoError(t, err)
	assert.Equal(t, `[{"setting":{"arrivals":"even","load":1},"system":"ours","metric":"goodput","unit":"1/s","ours":1000,"paper":900,"ratio":1.1111111111111112},`+
		`{"setting":{"arrivals":"even","load":1},"system":"theirs","metric":"goodput","unit":"1/s","ours":0.5,"paper":null}]`, string(text))
}

func TestEach(t *testing.T) {
	last := 0
	e := &experiments.Env{Progress: func(_ string, done, all int) { assert.Equal(t, last+1, done); last = done; assert.Equal(t, 50, all) }}
	var sum atomic.Int64
	require.NoError(t, e.Each(t.Context(), "work", 50, func(i int) error { sum.Add(int64(i)); return nil }))
	assert.Equal(t, int64(49*50/2), sum.Load())
	assert.Equal(t, 50, last)

	e.Progress = nil
	wrong := errors.New("wrong")
	assert.ErrorIs(t, e.Each(t.Context(), "work", 1000, func(i int) error {
		if i == 3 {
			return wrong
		}
		return nil
	}), wrong)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	assert.ErrorIs(t, e.Each(stopped, "work", 1000, func(int) error { t.Error("runs"); return nil }), context.Canceled)
}

// TestOnly: one metric of several, and the whole where there is none of that name.
func TestOnly(t *testing.T) {
	f, r := example()
	only := r.Only([]string{"late"})
	assert.Contains(t, f.Markdown(only), "late (%), arrivals even:")
	assert.NotContains(t, f.Markdown(only), "goodput (1/s), arrivals even:")
	assert.Equal(t, r, r.Only([]string{"cost"}))
	assert.Equal(t, r, r.Only(nil))
	assert.Len(t, f.Tables(r), 2, "rows of the whole stay")
}
