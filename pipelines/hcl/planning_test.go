package hcl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
)

// drawPlanning draws any planning, sensible or not.
func drawPlanning(t *rapid.T) pipelines.Planning {
	p := pipelines.Planning{
		Policy:    rapid.SampledFrom([]string{"", "exact", "harpagon", "kairos", "batch", `od"d ${x}`}).Draw(t, "policy"),
		CostModel: rapid.SampledFrom(append(pipelines.CostModels(), "", "free")).Draw(t, "cost model"),
		Split:     rapid.SampledFrom([]string{"", "lc", "quantized:2.5ms", "x"}).Draw(t, "split"),
		Reading:   rapid.SampledFrom([]string{"", "own", "literal"}).Draw(t, "reading"),
	}
	p.Concurrency, p.AllowUnsound = rapid.Bool().Draw(t, "concurrency"), rapid.Bool().Draw(t, "unsound")
	if steps := rapid.SliceOfN(rapid.SampledFrom(pipelines.Steps()), 0, 3).Draw(t, "without"); len(steps) > 0 {
		p.Without = steps
	}
	return p
}

func TestPlanBlockIsRead(t *testing.T) {
	c, diags := Parse("/a.hcl", []byte(`
variable "policy" { default = "harpagon" }

pipeline "p" {
  slo  = "1s"
  rate = 1
  plan {
    policy        = var.policy
    cost_model    = "whole"
    without       = ["merge", "direct"]
    split         = "quantized:10ms"
    reading       = "literal"
    concurrency   = true
    allow_unsound = true
  }
}

pipeline "p.plan" {
  slo  = "1s"
  rate = 1
}

pool "q" {
  slo     = "1s"
  budget  = 1
  base    = "x"
  profile = "x.csv"
  plan { policy = "kairos" }
}

function "f" {
  provider = provider.cloud
  profile  = "f.json"
  plan { policy = "mbs+" }
}
`))
	for _, d := range diags {
		assert.Equal(t, "Missing profile", d.Summary, d.Detail)
	}
	want := pipelines.Planning{
		Policy: "harpagon", CostModel: "whole", Without: []string{"merge", "direct"}, Split: "quantized:10ms",
		Reading: "literal", Concurrency: true, AllowUnsound: true,
	}
	assert.Equal(t, want, c.Document.Pipelines[0].Plan)
	assert.Empty(t, want.Faults(pipelines.KindPipeline))
	assert.Equal(t, pipelines.Planning{}, c.Document.Pipelines[1].Plan)
	assert.Equal(t, pipelines.Planning{Policy: "kairos"}, c.Document.Pools[0].Plan)
	assert.Equal(t, pipelines.Planning{Policy: "mbs+"}, c.Document.Functions[0].Plan)
}

func TestPlanBlockFindings(t *testing.T) {
	for name, test := range map[string]struct {
		kind, plan   string
		line, column int
		summary      string
		detail       string
	}{
		"a policy that nobody has": {
			"pipeline", `policy = "harpagn"`, 3, 10, "Unknown policy", `There is no policy "harpagn" for a pipeline. Did you mean "harpagon"?`},
		"far from any": {
			"pool", `policy = "best"`, 3, 10, "Unknown policy", `There is no policy "best" for a pool. Choose one of ` + strings.Join(pipelines.Policies(pipelines.KindPool), ", ") + `.`},
		"a policy of pools": {
			"pipeline", `policy = "kairos"`, 3, 10, "Unknown policy", `Policy "kairos" plans pools, and this is a pipeline. Choose one of ` + strings.Join(pipelines.Policies(pipelines.KindPipeline), ", ") + `.`},
		"a policy of pipelines": {
			"function", `policy = "harpagon"`, 3, 10, "Unknown policy", `Policy "harpagon" plans pipelines, and this is a function. Choose one of ` + strings.Join(pipelines.Policies(pipelines.KindFunction), ", ") + `.`},
		"a cost model in a pool": {
			"pool", `cost_model = "whole"`, 3, 14, "Not for a pool", `The plan of a pool has a policy only; cost_model is for pipelines. Take it out.`},
		"an unsound function": {
			"function", `allow_unsound = true`, 3, 17, "Not for a function", `The plan of a function has a policy only; allow_unsound is for pipelines. Take it out.`},
		"an unknown cost model": {
			"pipeline", `cost_model = "hole"`, 3, 14, "Unknown cost model", `There is no cost model "hole". Did you mean "whole"?`},
		"a step that exact has not": {
			"pipeline", `without = ["merge"]`, 3, 11, "No such step", `Policy exact has no step "merge" to switch off; policy harpagon has. Choose one of hetero, hetero:dearest, batch, concurrency.`},
		"a step of a baseline": {
			"pipeline", "policy = \"nexus\"\nwithout = [\"merge\"]", 4, 11, "No such step", `Policy nexus has no steps to switch off; take policy harpagon for those.`},
		"a misspelt step": {
			"pipeline", "policy = \"harpagon\"\nwithout = [\"merg\"]", 4, 11, "No such step", `Policy harpagon has no step "merg" to switch off. Did you mean "merge"?`},
		"steps that exclude each other": {
			"pipeline", "policy = \"harpagon\"\nwithout = [\"multi:one\", \"multi\"]", 4, 11, "No such step", `Steps "multi" and "multi:one" exclude each other; keep one of them.`},
		"a split of exact": {
			"pipeline", `split = "lc"`, 3, 9, "No such split", `Policy exact has one way to divide the objective; leave out split "lc", or take policy harpagon.`},
		"a split in no time": {
			"pipeline", "policy = \"harpagon\"\nsplit = \"quantized:1us\"", 4, 9, "No such split", `The step of split "quantized:1us" must be a duration of 1ms or more, as in quantized:10ms.`},
		"a reading of exact": {
			"pipeline", `reading = "literal"`, 3, 11, "No such reading", `Policy exact has one reading of Theorem 1; take policy harpagon or piccolo for reading "literal".`},
		"asked for and switched off": {
			"pipeline", "concurrency = true\nwithout = [\"concurrency\"]", 3, 15, "Contradiction", `Several batches at a time are asked for and switched off: take out concurrency, or "concurrency" of without.`},
		"not a text": {
			"pipeline", `policy = ["exact"]`, 3, 10, "Wrong kind of value", "The value of policy must be a string."},
		"an attribute that is not": {
			"pipeline", `polcy = "exact"`, 3, 1, "Unsupported argument", `An argument named "polcy" is not expected here. Did you mean "policy"?`},
	} {
		t.Run(name, func(t *testing.T) {
			src := test.kind + " \"x\" {\n plan {\n" + test.plan + "\n }\n}"
			c, diags := Parse("/a.hcl", []byte(src))
			for _, f := range Findings(append(diags, c.Validate(nil)...)) {
				if f.Summary == test.summary {
					assert.Equal(t, test.detail, f.Detail)
					assert.Equal(t, [2]int{test.line, test.column}, [2]int{f.Line, f.Column}, f.String())
					return
				}
			}
			assert.Fail(t, "no such finding", "%v", append(diags, c.Validate(nil)...))
		})
	}
}

func TestOnePlanBlock(t *testing.T) {
	_, diags := Parse("/a.hcl", []byte("pool \"x\" {\n plan {}\n plan {}\n}"))
	f := Findings(diags)
	require.NotEmpty(t, f)
	assert.Equal(t, "There is a plan block already at /a.hcl:2,2-6; a service has one.", f[len(f)-1].Detail)
	assert.Equal(t, 3, f[len(f)-1].Line)
}

func TestPlanningInGo(t *testing.T) {
	_, err := build.New("p").SLO(time.Second).Rate(1).Plan(pipelines.Planning{Policy: "kairos"}).Input("x", "FP32", 1).
		Module(build.Step("m", "normalize").In("x", build.FromInput("x"))).Output("y", build.From("m", "y")).Build()
	assert.ErrorContains(t, err, `Policy "kairos" plans pools`)
	_, err = build.NewPool("q").Plan(pipelines.Planning{Split: "lc"}).Build()
	assert.ErrorContains(t, err, "split is for pipelines")
	_, err = build.NewFunction("f", pipelines.Provider{}).Plan(pipelines.Planning{Policy: "x"}).Build()
	assert.ErrorContains(t, err, `There is no policy "x" for a function. Choose one of `+strings.Join(pipelines.Policies(pipelines.KindFunction), ", ")+`.`)
}

func TestPlanBlocksOfPoolsAndFunctionsRoundTrip(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"latency.csv": latencyCSV, "sizes.csv": sizesCSV} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for name, src := range map[string]string{"pool": ranking, "functions": cloudHCL} {
		t.Run(name, func(t *testing.T) {
			c, _ := Parse(filepath.Join(dir, "a.hcl"), []byte(src))
			for i := range c.Document.Pools {
				c.Document.Pools[i].Plan.Policy = "kairos"
			}
			for i := range c.Document.Functions {
				c.Document.Functions[i].Plan.Policy = "batch"
			}
			printed := HCL(c.Document)
			require.Contains(t, string(printed), "\n  plan {\n    policy = ")
			again, _ := Parse(filepath.Join(dir, "a.hcl"), printed)
			for i, p := range c.Document.Pools {
				assert.Equal(t, p.Plan, again.Document.Pools[i].Plan)
			}
			for i, f := range c.Document.Functions {
				assert.Equal(t, f.Plan, again.Document.Functions[i].Plan)
			}
			assert.Equal(t, string(printed), string(HCL(again.Document)))
		})
	}
}
