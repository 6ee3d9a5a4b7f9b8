package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What has changed since it was planned is refused before a system is contacted; that a
// plan is carried out as it is, and which generation it needs, is for the tests of
// workflows.
func TestApplyRefusesStalePlans(t *testing.T) {
	noSystem := "harpagon up" // apply's error without faults and without a system
	for name, c := range map[string]struct {
		change func(dir, out string)
		says   string
	}{
		"as it was made":       {func(string, string) {}, noSystem},
		"other white space":    {func(_, out string) { edit(t, out, "\n  \"plans\"", "\n\n  \"plans\"") }, noSystem},
		"edited by hand":       {func(_, out string) { edit(t, out, `"cost": `, `"cost": 1`) }, "it was changed after it was made"},
		"another generation":   {func(_, out string) { edit(t, out, `"generations": {}`, `"generations": {"small": 4}`) }, "it was changed after it was made"},
		"of another version":   {func(_, out string) { edit(t, out, `"version": "v1.2.3"`, `"version": "v1.2.2"`) }, "version v1.2.2 of harpagon has made it, and this is v1.2.3"},
		"no plan":              {func(_, out string) { require.NoError(t, os.WriteFile(out, []byte("{}"), 0o644)) }, "does not name the declaration"},
		"no JSON":              {func(_, out string) { require.NoError(t, os.WriteFile(out, []byte("x"), 0o644)) }, "something else than plans"},
		"another declaration":  {func(dir, _ string) { editOne(t, dir, "*.hcl", `"400ms"`, `"390ms"`) }, "the declaration, or a profile, has changed"},
		"another profile":      {func(dir, _ string) { appendOne(t, dir, "*.csv") }, "the declaration, or a profile, has changed"},
		"no declaration there": {func(dir, _ string) { require.NoError(t, os.RemoveAll(dir)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := smallFolder(t, "400ms")
			out := filepath.Join(t.TempDir(), "plan.json")
			require.Equal(t, ExitOK, run(t, "plan", dir, "--out", out).code)
			c.change(dir, out)
			got := run(t, "apply", "--plan", out, "--state", filepath.Join(t.TempDir(), "none"))
			assert.Equal(t, ExitError, got.code)
			assert.Contains(t, got.stderr, c.says)
		})
	}
}

func TestApplyPlanStandsAlone(t *testing.T) {
	got := run(t, "apply", "--plan", "plan.json", ".")
	assert.Contains(t, got.stderr, "leave out PATH")
	got = run(t, "apply", "--plan", "plan.json", "--policy", "harpagon")
	assert.Contains(t, got.stderr, "leave out --policy")
}

func edit(t *testing.T, path, from, to string) {
	text := read(t, path)
	require.Contains(t, text, from)
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(text, from, to, 1)), 0o644))
}

func one(t *testing.T, dir, pattern string) string {
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	require.NoError(t, err)
	if len(all) == 0 {
		all, err = filepath.Glob(filepath.Join(dir, "*", pattern))
		require.NoError(t, err)
	}
	require.NotEmpty(t, all)
	return all[0]
}

func editOne(t *testing.T, dir, pattern, from, to string) { edit(t, one(t, dir, pattern), from, to) }

// appendOne repeats the last line of a profile with a larger batch.
func appendOne(t *testing.T, dir, pattern string) {
	path := one(t, dir, pattern)
	lines := strings.Split(strings.TrimSpace(read(t, path)), "\n")
	cells := strings.Split(lines[len(lines)-1], ",")
	cells[1] = "512"
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(append(lines, strings.Join(cells, ",")), "\n")+"\n"), 0o644))
}
