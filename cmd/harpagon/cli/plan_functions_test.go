package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler/functions"
)

const functionsExample = "../../../examples/functions"

func TestPlanFunctions(t *testing.T) {
	got := run(t, "plan", functionsExample)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Empty(t, got.stderr)
	golden(t, "functions.txt", got.stdout)

	for _, policy := range []string{"exact", "harmonybatch", "batch", "mbs+", "mbs+ optimal"} {
		got = run(t, "plan", functionsExample, "--policy", policy, "--json")
		assert.Equal(t, ExitOK, got.code, got.stderr)
		var out struct {
			Plans     []any
			Functions []struct {
				Policy string
				Cost   float64 `json:"cost_per_request"`
				Groups []any
			}
		}
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		assert.NotNil(t, out.Plans)
		require.Len(t, out.Functions, 1)
		assert.Equal(t, policy, out.Functions[0].Policy)
		assert.Positive(t, out.Functions[0].Cost)
		assert.NotEmpty(t, out.Functions[0].Groups)
	}

	got = run(t, "validate", functionsExample)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "1 function")
}

func TestPlanFunctionsPolicies(t *testing.T) {
	got := run(t, "plan", functionsExample, "--policy", "nexus")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `for functions there is exact, harmonybatch, batch, mbs+, mbs+ optimal`)
	got = run(t, "plan", smallFolder(t, "400ms"), "--policy", "mbs+")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "none is declared")
}

// TestPlanFunctionsThatCannotBe holds that an objective that no function keeps
// is an error of validate and an infeasible plan of plan.
func TestPlanFunctionsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(functionsExample, "functions.hcl"))
	require.NoError(t, err)
	profile, err := os.ReadFile(filepath.Join(functionsExample, "profiles/vgg19.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vgg19.json"), profile, 0o600))
	changed := strings.NewReplacer(`"500ms"`, `"2ms"`, "profiles/", "").Replace(string(text))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.hcl"), []byte(changed), 0o600))

	got := run(t, "validate", dir)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "SLO cannot be met")
	got = run(t, "plan", dir, "--json")
	assert.Equal(t, ExitError, got.code)
	assert.Empty(t, got.stderr)
	var out struct{ Functions []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Functions, 1)
	assert.Equal(t, "infeasible", out.Functions[0]["status"])
	assert.Contains(t, out.Functions[0]["reason"], "assistant with an SLO of 2 ms")
}

func TestPlanFunctionsDetailedExitCode(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "plan.json")
	assert.Equal(t, ExitChanges, run(t, "plan", functionsExample, "--out", kept, "--detailed-exitcode").code)
	assert.Equal(t, ExitOK, run(t, "plan", functionsExample, "--out", kept, "--detailed-exitcode").code)
	assert.Equal(t, ExitChanges, run(t, "plan", functionsExample, "--var", "billing=0s", "--out", kept, "--detailed-exitcode").code)
}

func TestCompareFunctions(t *testing.T) {
	got := run(t, "compare", functionsExample)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	for _, text := range []string{"vgg19", "exact", "harmonybatch", "batch", "mbs+", "mbs+ optimal", "per million"} {
		assert.Contains(t, got.stdout, text)
	}
	got = run(t, "compare", functionsExample, "--policy", "batch", "--json")
	assert.Equal(t, ExitError, got.code, "the plan of policy batch is not sound")
	var out struct {
		Functions []struct{ Plans []map[string]any }
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Functions, 1)
	require.Len(t, out.Functions[0].Plans, 1)
	assert.Equal(t, "batch", out.Functions[0].Plans[0]["policy"])
}

// TestDocumentOfFunctions holds the example of docs/explanation/functions.md to what it
// explains, with the profile of the example folder.
func TestDocumentOfFunctions(t *testing.T) {
	text := read(t, filepath.Join(root, "docs", "explanation", "functions.md"))
	found := fences.FindAllStringSubmatch(text, -1)
	require.Len(t, found, 1)
	src := []byte(found[0][2])
	config, diags := hcl.Parse(functionsExample+"/doc.hcl", src)
	require.Empty(t, diags)
	assert.Empty(t, config.Validate(nil))
	formatted, diags := hcl.Format("doc.hcl", src)
	assert.Empty(t, diags)
	assert.Equal(t, string(src), string(formatted))
	for _, policy := range functions.Policies() {
		assert.Contains(t, text, "| `"+policy+"`")
	}
}

func TestSimulateFunctions(t *testing.T) {
	got := run(t, "simulate", functionsExample, "--duration", "120s", "--json")
	assert.Equal(t, ExitOK, got.code, got.stderr)
	var out struct {
		Functions []struct {
			Dispatch                                    string
			Requests, Completed, Late, Dropped, Refused int
			Attainment                                  float64
			Cost                                        float64 `json:"cost_per_request"`
			Predicted                                   float64 `json:"predicted_cost_per_request"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Functions, 1)
	f := out.Functions[0]
	assert.Equal(t, "grouped", f.Dispatch)
	assert.InEpsilon(t, 35*120, f.Requests, 0.1)
	assert.Equal(t, f.Requests, f.Completed+f.Late+f.Dropped+f.Refused)
	assert.Equal(t, 1.0, f.Attainment)
	assert.InEpsilon(t, f.Predicted, f.Cost, 0.4)

	assert.Equal(t, got, run(t, "simulate", functionsExample, "--duration", "120s", "--json"), "the same seed, the same result")
	got = run(t, "simulate", functionsExample, "--arrivals", "even")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "poisson")
	for _, flags := range [][]string{{"--devices", "gpu=2"}, {"--find-goodput"}, {"--dispatch", "tc"}} {
		got = run(t, append([]string{"simulate", functionsExample}, flags...)...)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, flags[0])
		assert.Contains(t, got.stderr, " is for pipelines and pools")
	}
	got = run(t, "compare", functionsExample, "--plot", filepath.Join(t.TempDir(), "x.svg"))
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "--plot draws costs of pipelines")
}

// TestTableIFromFiles plans Table I of the HarmonyBatch paper from a declaration: two groups,
// 0.60 of what BATCH costs, where 0.63 is printed.
func TestTableIFromFiles(t *testing.T) {
	terms := functionsExample + "/terms"
	cost := func(policy string, groups int) float64 {
		got := run(t, "plan", terms, "--policy", policy, "--json")
		require.Equal(t, ExitOK, got.code, got.stderr)
		var out struct {
			Functions []struct {
				CostPerRequest float64           `json:"cost_per_request"`
				Groups         []json.RawMessage `json:"groups"`
			} `json:"functions"`
		}
		require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
		require.Len(t, out.Functions, 1)
		assert.Len(t, out.Functions[0].Groups, groups)
		return out.Functions[0].CostPerRequest
	}
	assert.InDelta(t, 0.60, cost("harmonybatch", 2)/cost("batch", 3), 0.005)
}
