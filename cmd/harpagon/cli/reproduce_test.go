package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/experiments"
	"github.com/harpagon/harpagon/scheduler/dispatch/shared"
)

type figuresJSON struct {
	Figures []struct {
		ID, Title string
		Seconds   int
		Rows      []struct {
			Setting              map[string]any
			System, Metric, Unit string
			Ours, Ratio          float64
			Paper                *float64
		}
	}
}

// TestListOfFiguresIsComplete: what is listed is what can be made.
func TestListOfFiguresIsComplete(t *testing.T) {
	got := run(t, "reproduce", "--list", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out figuresJSON
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	text := run(t, "reproduce", "--list").stdout
	require.Len(t, out.Figures, len(experiments.All()))
	for _, f := range out.Figures {
		assert.Positive(t, f.Seconds, f.ID)
		assert.NotEmpty(t, f.Title, f.ID)
		assert.Empty(t, f.Rows, f.ID)
		assert.Regexp(t, `^[a-z]+/[a-z0-9-]+$`, f.ID)
		assert.Contains(t, text, f.ID)
		assert.Equal(t, 1, strings.Count("\n"+text, "\n"+f.ID+" "), f.ID)
	}
	for _, p := range experiments.Elsewhere() {
		assert.Contains(t, text, p.ID)
	}
}

// TestWhatIsNotMade: a figure that another shows is that one, for the others the reason is
// printed.
func TestWhatIsNotMade(t *testing.T) {
	all := experiments.All()
	for _, p := range experiments.Elsewhere() {
		assert.NotEmpty(t, p.Title, p.ID)
		assert.Empty(t, experiments.Find(all, p.ID), "%s is made", p.ID)
		if p.In != "" {
			assert.Len(t, experiments.Find(all, p.In), 1, p.ID)
			assert.Empty(t, p.Why, p.ID)
			continue
		}
		got := run(t, "reproduce", p.ID)
		assert.Equal(t, ExitError, got.code, p.ID)
		assert.Contains(t, strings.Join(strings.Fields(got.stderr), " "), p.Why, p.ID)
	}
	got := run(t, "reproduce", "symphony/figure7", "--list")
	assert.Equal(t, "symphony/figure7              -  Objectives, popularity and bursts: see symphony/bursts\n", got.stdout)
}

func TestReproduceForPrograms(t *testing.T) {
	got := run(t, "reproduce", "symphony/table2", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out figuresJSON
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Figures, 1)
	printed := 0
	for _, r := range out.Figures[0].Rows {
		require.Contains(t, r.Setting, "frontends")
		if r.Paper != nil {
			printed++
			assert.InEpsilon(t, *r.Paper, r.Ours, 0.06)
			assert.InDelta(t, r.Ours / *r.Paper, r.Ratio, 1e-9)
		}
	}
	assert.Equal(t, 4, printed)
}

// TestReproduceFromAnEarlierRun shows the same, and makes what the file lacks.
func TestReproduceFromAnEarlierRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "all.json")
	for _, id := range []string{"symphony/table2", "harmonybatch/figure13", "harpagon/figure2"} {
		made := run(t, "reproduce", id, "--json")
		require.Equal(t, ExitOK, made.code, made.stderr)
		require.NoError(t, os.WriteFile(file, []byte(made.stdout), 0o600))
		again := run(t, "reproduce", id, "--from", file, "--json")
		assert.Equal(t, made.stdout, again.stdout)
		text := run(t, "reproduce", id, "--from", file)
		assert.Equal(t, run(t, "reproduce", id).stdout, text.stdout)
	}
	got := run(t, "reproduce", "symphony/table2", "--from", file, "--json")
	assert.Contains(t, got.stdout, "round robin", "it is not in the file")
	got = run(t, "reproduce", "symphony/table2", "--from", "reproduce_test.go")
	assert.Contains(t, got.stderr, "--from: reproduce_test.go is not what harpagon reproduce --json prints")
}

func TestReproduceToAFolder(t *testing.T) {
	dir := t.TempDir()
	got := run(t, "reproduce", "symphony/devices", "symphony/table2", "--out", dir)
	require.Equal(t, ExitOK, got.code, got.stderr)
	for _, text := range []string{"From one device to a thousand", "Adaptive over deferred: ", "table 2", "goodput over deferred's, group 1 model", "Figures beside the papers\n\n", "figure            seconds  printed  within 15 %"} {
		assert.Contains(t, got.stdout, text)
	}
	page := read(t, filepath.Join(dir, "symphony", "devices.md"))
	assert.Contains(t, page, "Made by `harpagon reproduce symphony/devices symphony/table2 --markdown` on go")
	assert.Contains(t, page, "| devices | "+strings.Join(shared.Names(), " | ")+" | eager:window |\n| --- | ---: |")
	assert.Contains(t, read(t, filepath.Join(dir, "symphony", "devices.svg")), ">1 model<")
	file, err := os.Open(filepath.Join(dir, "symphony", "table2.csv"))
	require.NoError(t, err)
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, []string{"rate", "window_ms", "frontends", "system", "metric", "unit", "ours", "paper"}, lines[0])
	assert.Len(t, lines, 1+8)
	assert.NoFileExists(t, filepath.Join(dir, "symphony", "table2.svg"))
}

func TestReproduceRefuses(t *testing.T) {
	for _, row := range []struct {
		args []string
		says string
	}{
		{[]string{"symphony/table9"}, `there is no figure "symphony/table9". Did you mean "symphony/table`},
		{[]string{"nothing"}, `there is no figure "nothing". harpagon reproduce --list names all`},
		{nil, "name the figures to make, or all of them by --all"},
		{[]string{"symphony", "--all"}, "or all of them by --all"},
		{[]string{"--json", "--markdown"}, "exclude each other"},
		{[]string{"harpagon/table2", "--as", "theirs"}, `--as: there is no profile "theirs" of assumptions; there is paper, authors, ours`},
		{[]string{"harpagon/table2", "--explain", "--as", "ours"}, "leave out --as"},
		{[]string{"symphony/table2", "--out", os.DevNull}, "--out: "},
	} {
		got := run(t, append([]string{"reproduce"}, row.args...)...)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, row.says)
	}
}

// TestReproduceAs: the same figure on other terms, and what closes the gaps between them.
func TestReproduceAs(t *testing.T) {
	const id = "harpagon/figure7"
	asPaper := run(t, "reproduce", id)
	require.Equal(t, ExitOK, asPaper.code, asPaper.stderr)
	assert.Contains(t, asPaper.stdout, "Assumed: dense-regime, speeds-by-module, dt-1.5d.")
	ours := run(t, "reproduce", id, "--as", "ours")
	require.Equal(t, ExitOK, ours.code, ours.stderr)
	assert.NotContains(t, ours.stdout, "Assumed: ")
	assert.NotEqual(t, asPaper.stdout, ours.stdout)
	gaps := run(t, "reproduce", id, "--explain")
	require.Equal(t, ExitOK, gaps.code, gaps.stderr)
	assert.Contains(t, gaps.stdout, "Harp-dt, worst case over that of TC dispatch: 1.428 is printed; ")
	assert.Contains(t, gaps.stdout, "met with dt-1.5d (")
	whole := run(t, "reproduce", "harpagon/table2", "--explain")
	assert.Equal(t, "harpagon/table2: every printed number is met.\n", whole.stdout)
}

// TestReproduceStopsWhenAsked: what is done stays, as JSON that is whole.
func TestReproduceStopsWhenAsked(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, err strings.Builder
	code := Run(ctx, Deps{Stdout: &out, Stderr: &err}, []string{"reproduce", "symphony/table2", "simulating/promises", "--json"})
	assert.Equal(t, ExitError, code)
	assert.Contains(t, err.String(), "stopped; 1 of 2 figures are done")
	assert.True(t, json.Valid([]byte(out.String())))
}
