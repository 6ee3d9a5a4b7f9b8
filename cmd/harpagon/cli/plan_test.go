package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/plan"
)

func TestPlan(t *testing.T) {
	dir := smallFolder(t, "400ms")
	got := run(t, "plan", dir)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Empty(t, got.stderr)
	golden(t, "plan.txt", got.stdout)

	got = run(t, "plan", dir, "--json")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	golden(t, "plan.json", got.stdout)
}

func TestPlanOptions(t *testing.T) {
	dir := smallFolder(t, "400ms")
	whole := run(t, "plan", dir, "--policy", "exact", "--cost-model", "shared")
	assert.Equal(t, run(t, "plan", dir), whole)
	cut := run(t, "plan", dir, "--without", "batch,dummy", "--without", "direct")
	assert.Equal(t, ExitOK, cut.code, cut.stderr)
	assert.NotEqual(t, whole.stdout, cut.stdout)
	tight := smallFolder(t, "120ms") // with plenty of time, all splits give each module what it wants
	assert.NotEqual(t, run(t, "plan", tight, "--split", "lc").stdout, run(t, "plan", tight, "--split", "quantized:20ms").stdout)
}

// TestPlanOfTheInfeasible holds that one infeasible pipeline does not stop the
// others, and that validate calls the same an error.
func TestPlanOfTheInfeasible(t *testing.T) {
	dir := smallFolder(t, "9ms")
	other := strings.Replace(strings.ReplaceAll(small, "%s", "400ms"), `pipeline "small"`, `pipeline "other"`, 1)
	other = other[strings.Index(other, "pipeline"):]
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.hcl"), []byte(other), 0o644))

	assert.Equal(t, ExitError, run(t, "validate", dir).code)
	got := run(t, "plan", dir, "--json", "--detailed-exitcode")
	assert.Equal(t, ExitError, got.code)
	assert.Empty(t, got.stderr)
	var out struct{ Plans []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Plans, 2)
	assert.Equal(t, "optimal", out.Plans[0]["status"])
	assert.Equal(t, "infeasible", out.Plans[1]["status"])
	assert.Contains(t, out.Plans[1]["reason"], "detect -> vehicle")
	assert.Empty(t, out.Plans[1]["modules"])

	got = run(t, "plan", dir)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stdout, "small: infeasible: ")
	assert.Contains(t, got.stdout, "other: optimal plan")
}

func TestPlanNeedsAValidDeclaration(t *testing.T) {
	dir := smallFolder(t, "400")
	got := run(t, "plan", dir, "--json")
	assert.Equal(t, ExitError, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, `"400" is not a duration`)
	assert.Contains(t, got.stderr, "small.hcl line 6")
}

func TestPlanNeedsProfiles(t *testing.T) {
	got := run(t, "plan", root+"/examples/traffic")
	assert.Equal(t, ExitError, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, "traffic.detect, traffic.boxes")
	assert.Contains(t, got.stderr, "harpagon profile "+root+"/examples/traffic")
	assert.Contains(t, got.stderr, "harpagon up "+root+"/examples/traffic")
}

func TestPlanKeepsAndCompares(t *testing.T) {
	dir := smallFolder(t, "400ms")
	out := filepath.Join(t.TempDir(), "plan.json")
	args := []string{"plan", dir, "--out", out, "--detailed-exitcode"}
	assert.Equal(t, ExitChanges, run(t, args...).code, "new")
	var kept map[string]any
	require.NoError(t, json.Unmarshal([]byte(read(t, out)), &kept))
	require.Contains(t, kept, "made", "from what it was made is added")
	delete(kept, "made")
	text, err := json.Marshal(kept)
	require.NoError(t, err)
	assert.JSONEq(t, run(t, "plan", dir, "--json").stdout, string(text))
	assert.Equal(t, ExitOK, run(t, args...).code, "the same")
	assert.Equal(t, ExitChanges, run(t, append(args, "--without", "batch")...).code, "another")
	assert.Equal(t, ExitOK, run(t, "plan", dir, "--out", out).code)
	assert.Equal(t, ExitChanges, run(t, "plan", dir, "--detailed-exitcode").code, "it needs devices")

	require.NoError(t, os.WriteFile(out, []byte("a letter"), 0o644))
	got := run(t, args...)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "name another file")
	assert.Equal(t, "a letter", read(t, out))
}

// TestPlanBlock holds that commands follow the plan block, and that flags override it.
func TestPlanBlock(t *testing.T) {
	folder := smallFolder(t, "400ms")
	files, err := filepath.Glob(filepath.Join(folder, "*.hcl"))
	require.NoError(t, err)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	declare := func(block string) {
		changed := strings.Replace(string(text), "slo ", "plan {\n"+block+"\n}\nslo ", 1)
		require.NoError(t, os.WriteFile(files[0], []byte(changed), 0o600))
	}
	planned := func(flags ...string) plan.Plan {
		var all Plans
		got := run(t, append([]string{"plan", folder, "--json"}, flags...)...)
		require.Equal(t, ExitOK, got.code, got.stderr)
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &all))
		return all.Plans[0]
	}
	declare("policy = \"nexus\"\ncost_model = \"whole\"")
	p := planned()
	assert.Equal(t, [2]string{"nexus", "whole"}, [2]string{p.Policy, p.CostModel})
	p = planned("--policy", "harpagon", "--split", "even")
	assert.Equal(t, [2]string{"harpagon", "whole"}, [2]string{p.Policy, p.CostModel})
	p = planned("--cost-model", "proportional")
	assert.Equal(t, [2]string{"nexus", "proportional"}, [2]string{p.Policy, p.CostModel})
	got := run(t, "plan", folder, "--without", "merge")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "--without: pipeline \"")
	assert.Contains(t, got.stderr, "Policy nexus has no steps to switch off")

	declare(`policy = "kairos"`)
	for _, name := range []string{"validate", "plan", "compare", "simulate", "apply"} {
		got := run(t, name, folder)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr+got.stdout, `Policy "kairos" plans pools, and this is a pipeline`, name)
	}
	got = run(t, "simulate", folder, "--devices", "cpu=1", "--policy", "exact")
	assert.Contains(t, got.stderr, "--devices runs pipelines without a plan, and --policy sets how to plan")
	got = run(t, "up", "--split", "lc")
	assert.Contains(t, got.stderr, "embedded system", "a program without the server reports that first")
}
