package hcl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
)

const ranked = `hardware "gpu" {
  price = 0.5
  cores = 2
}

hardware "cpu" {
  price = 0.15
}

pool "ranking" {
  model    = "net.onnx"
  engine   = "gorgonia"
  sizes    = "sizes.csv"
  slo      = "100ms"
  budget   = 2
  base     = "gpu"
  hardware = ["gpu", "cpu"]
  overhead = "1.5ms"

  dispatch "matching" {
    coefficients = "paper"
    width        = "all"
  }

  input "x" {
    datatype = "FP32"
    shape    = [3]
  }

  output "best" {
    value = model.scores
  }
}
`

func rankedFolder(t *testing.T, change func(string) string) string {
	t.Helper()
	b := onnx.NewBuilder("net", "x", 3)
	b.Gemm(make([]float32, 6), make([]float32, 2), 3, 2)
	dir := folder(t, map[string]string{"a.hcl": change(ranked), "sizes.csv": sizesCSV, "latency.csv": latencyCSV})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "net.onnx"), b.Model("scores").Encode(), 0o600))
	return dir
}

// what the network of the tests takes and gives.
func netSignature(pipelines.Module) (pipelines.Signature, error) {
	return pipelines.Signature{
		Inputs:  []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{3}}},
		Outputs: []pipelines.Port{{Name: "scores", Datatype: "FP32", Shape: []int64{2}}},
	}, nil
}

func TestAPoolWithAModel(t *testing.T) {
	c, diags := Load(LoadOptions{}, rankedFolder(t, func(s string) string { return s }))
	require.Empty(t, diags)
	require.Empty(t, c.Validate(netSignature))
	p := c.Document.Pools[0]
	assert.True(t, p.Unmeasured())
	assert.Equal(t, pipelines.Matching{Coefficients: "paper", Width: pipelines.WidthAll}, p.Matching)
	assert.Equal(t, 1500*time.Microsecond, p.Overhead)
	assert.Equal(t, 2, c.Document.HardwareNamed("gpu").Cores)
	served := p.Served()
	m := served.Modules[0]
	assert.Equal(t, []int{10, 150, 200}, m.Batches, "measured at the declared sizes")
	assert.Equal(t, []int64{-1, 3}, served.Inputs[0].Shape, "the size of a query comes first")
	assert.Equal(t, pipelines.Ref{Module: pipelines.PoolModule, Port: "scores"}, served.Outputs[0].From)
	assert.True(t, m.Sized)

	printed := string(HCL(c.Document))
	dir := folder(t, map[string]string{"a.hcl": printed})
	again, diags := Load(LoadOptions{}, dir)
	require.Empty(t, diags)
	assert.Equal(t, c.Document, again.Document)
	assert.Equal(t, printed, string(HCL(again.Document)))
}

func TestFindingsOfPoolsWithModels(t *testing.T) {
	replace := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	for name, c := range map[string]struct {
		change func(string) string
		want   string
	}{
		"no model, no profile":  {replace("model    = \"net.onnx\"\n  engine   = \"gorgonia\"\n", ""), "a.hcl:10:1: error: Ports without a model"},
		"another file":          {replace(`"net.onnx"`, `"none.onnx"`), "a.hcl:11:14: error: Missing model"},
		"no such input":         {replace(`input "x"`, `input "y"`), `Unknown input: The model of "query" has no input "y". Did you mean "x"?`},
		"another datatype":      {replace(`"FP32"`, `"INT64"`), "error: Wrong datatype"},
		"another shape":         {replace("[3]", "[4]"), "error: Wrong shape"},
		"the size written out":  {replace("[3]", "[-1, 4]"), "takes items of shape [3]"},
		"no such output":        {replace("model.scores", "model.best"), "error: Unknown output"},
		"an output of a module": {replace("model.scores", "module.query.scores"), "Refer to an output of the pool's model as model.NAME"},
		"no ports":              {func(s string) string { return s[:strings.Index(s, "\n  input")] + "}\n" }, "error: No input"},
		"another dispatch":      {replace(`dispatch "matching"`, `dispatch "clockwork"`), `error: Unknown dispatch`},
		"other coefficients":    {replace(`"paper"`, `"mine"`), "error: Unknown coefficients"},
		"no width":              {replace(`"all"`, "0"), "error: Invalid width"},
		"a profile, learned":    {replace("  overhead = \"1.5ms\"", "  profile  = \"latency.csv\"\n  measure  = false"), "a.hcl:19:14: error: Nothing to learn"},
		"no truth value":        {replace("  overhead = \"1.5ms\"", "  measure  = \"no\""), "a.hcl:18:14: error: Wrong kind of value"},
		"negative overhead":     {replace(`"1.5ms"`, `"-1ms"`), "error: Invalid overhead"},
		"negative cores":        {replace("cores = 2", "cores = -2"), "error: Invalid cores"},
		"unknown kind":          {replace(`["gpu", "cpu"]`, `["gpu", "tpu"]`), "error: Unknown hardware"},
		"an address, no remote": {replace(`"net.onnx"`, `"http://127.0.0.1:1/v2/models/m"`), "Address without the remote engine"},
	} {
		t.Run(name, func(t *testing.T) {
			c2, diags := Load(LoadOptions{}, rankedFolder(t, c.change))
			all := ""
			for _, f := range Findings(append(diags, c2.Validate(netSignature)...)) {
				all += f.String() + "\n"
			}
			assert.Contains(t, all, c.want)
		})
	}
}

func TestAPoolThatLearns(t *testing.T) {
	c, diags := Load(LoadOptions{}, rankedFolder(t, func(s string) string { return strings.Replace(s, "  overhead = \"1.5ms\"", "  measure  = false", 1) }))
	require.Empty(t, diags)
	require.Empty(t, c.Validate(netSignature))
	p := c.Document.Pools[0]
	assert.True(t, p.Learns())
	printed := string(HCL(c.Document))
	assert.Contains(t, printed, "measure  = false\n")
	again, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": printed}))
	require.Empty(t, diags)
	assert.Equal(t, c.Document, again.Document)

	p.Profile.Points = []pipelines.Point{{Hardware: "gpu", Batch: 300, Concurrency: 1, Duration: time.Millisecond}}
	assert.False(t, p.Learns(), "it has learned")
}

func TestAPoolWithNothingKnown(t *testing.T) {
	_, found := loadPool(t, map[string]string{"a.hcl": strings.Replace(ranking, "  profile  = \"latency.csv\"\n", "", 1)})
	require.Len(t, found, 1)
	assert.Contains(t, found[0].String(), "Nothing known of the pool: Give the pool a model")
}

// Who a pool is applied to does not see the files of its declaration.
func TestAPoolIsCheckedElsewhere(t *testing.T) {
	dir := rankedFolder(t, func(s string) string { return s })
	c, diags := Load(LoadOptions{}, dir)
	require.Empty(t, diags)
	require.NoError(t, os.Remove(filepath.Join(dir, "net.onnx")))
	require.ErrorContains(t, pipelines.CheckDocument(c.Document, nil), "Missing model")
	require.NoError(t, pipelines.CheckElsewhere(c.Document))
	c.Document.Pools[0].Budget = 0.1
	require.ErrorContains(t, pipelines.CheckElsewhere(c.Document), "Budget too small")
}
