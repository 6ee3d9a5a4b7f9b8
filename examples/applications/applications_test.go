// Package applications_test plans the applications of this folder with what was measured.
package applications_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/pipelines/library"
	"github.com/harpagon/harpagon/scheduler/plan"
	"github.com/harpagon/harpagon/scheduler/plan/policies"
)

// TestPlansWithWhatWasMeasured: each of the library's applications is here, with the same modules,
// and has a plan within its objective that is proven to be cheapest; the papers' policies have one
// that costs no less.
func TestPlansWithWhatWasMeasured(t *testing.T) {
	config, diags := hcl.Load(hcl.LoadOptions{}, ".")
	require.False(t, diags.HasErrors(), "%v", diags)
	synthetic, err := library.Document()
	require.NoError(t, err)
	require.Len(t, config.Document.Pipelines, len(synthetic.Pipelines))
	for i, p := range config.Document.Pipelines {
		here, err := p.Order()
		require.NoError(t, err)
		there, err := synthetic.Pipelines[i].Order()
		require.NoError(t, err)
		assert.Equal(t, synthetic.Pipelines[i].Name, p.Name)
		assert.Equal(t, there, here)
		problem := plan.Problem{Pipeline: p, Hardware: config.Document.Hardware}
		best := policies.Solve(problem, plan.Options{CostModel: plan.CostShared})
		require.Equal(t, plan.Optimal, best.Status, "%s: %s", p.Name, best.Reason)
		assert.True(t, best.Sound, p.Name)
		assert.LessOrEqual(t, best.Latency, p.SLO, p.Name)
		for _, policy := range []string{plan.PolicyHarpagon, plan.PolicyPiccolo} {
			other := policies.Solve(problem, plan.Options{Policy: policy, CostModel: plan.CostShared})
			assert.GreaterOrEqual(t, other.Cost, best.Cost, "%s, %s", p.Name, policy)
		}
	}
}

// TestNetworksFitTheDeclarations: the networks that make writes take and give what the files of
// this folder declare, all the way through.
func TestNetworksFitTheDeclarations(t *testing.T) {
	folder := t.TempDir()
	models := filepath.Join(folder, "models")
	require.NoError(t, os.Mkdir(models, 0o777))
	said, err := exec.CommandContext(t.Context(), "go", "run", "./make", models).CombinedOutput()
	require.NoError(t, err, "%s", said)
	files, err := filepath.Glob("*.hcl")
	require.NoError(t, err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), text, 0o666))
	}
	require.NoError(t, os.CopyFS(filepath.Join(folder, "profiles"), os.DirFS("profiles")))
	config, diags := hcl.Load(hcl.LoadOptions{}, folder)
	require.Empty(t, diags)
	modules := 0
	for _, p := range config.Document.Pipelines {
		for _, m := range p.Modules {
			modules++
			program, err := onnx.Load(m.Model)
			require.NoError(t, err, m.Name)
			var takes, given []string
			for _, port := range program.Signature().Inputs {
				takes = append(takes, port.Name)
			}
			for _, in := range m.Inputs {
				given = append(given, in.Name)
			}
			assert.ElementsMatch(t, takes, given, "%s.%s", p.Name, m.Name)
		}
	}
	written, err := os.ReadDir(models)
	require.NoError(t, err)
	assert.Len(t, written, modules)
}
