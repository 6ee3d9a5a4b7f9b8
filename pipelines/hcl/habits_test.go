package hcl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

// plain is a declaration with something in its pipeline, its module and beside them.
func plain(beside, inPipeline, inModule string) string {
	return fmt.Sprintf(`%s
hardware "cpu" { price = 1 }
pipeline "p" {
  slo  = "1s"
  rate = 5
  %s
  input "x" {
    datatype = "FP32"
    shape    = [4]
  }
  module "m" {
    profile = "m.csv"
    inputs  = { x = input.x }
    %s
  }
  output "y" { value = module.m.y }
}
`, beside, inPipeline, inModule)
}

const cpuCSV = "hardware,batch,concurrency,duration_ms\ncpu,1,1,20\n"

// findings are those of a declaration, one a line.
func findings(t *testing.T, o LoadOptions, path string) (pipelines.Document, string) {
	t.Helper()
	c, diags := Load(o, path)
	diags = append(diags, c.Validate(nil)...)
	var text strings.Builder
	for _, f := range Findings(diags) {
		fmt.Fprintln(&text, f)
	}
	return c.Document, text.String()
}

// TestWaysFromTerraform names the way here for what there is none of.
func TestWaysFromTerraform(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"count":      {plain("", "", "count = 2"), "for_each = range(2)"},
		"depends_on": {plain("", "", "depends_on = [module.b]"), "follows from what it reads"},
		"lifecycle":  {plain("", "", "lifecycle {\n prevent_destroy = true\n }"), "said by an update block"},
		"dynamic":    {plain("", "dynamic \"module\" {\n for_each = []\n }", ""), "Write for_each into the block itself"},
		"module":     {plain(`module "shared" { source = "./shared" }`, "", ""), "Modules stand within a pipeline"},
		"source":     {plain("", "", `source = "./shared"`), "is its model, function or command"},
		"terraform":  {plain("terraform {\n}", "", ""), "state is kept in the folder of --state"},
		"resource":   {plain("resource \"a\" \"b\" {\n}", "", ""), "What there is: hardware"},
		"sensitive":  {plain("variable \"a\" {\n default = 1\n sensitive = true\n}", "", ""), "There are no secrets"},
		"file":       {plain(`locals { a = file("x.json") }`, "", ""), "goes into a --var-file, which may be JSON"},
		"json":       {`{"hardware": {"cpu": {"price": 1, "count_": 2, "lifecycle": {}}}}`, "said by an update block"},
	} {
		t.Run(name, func(t *testing.T) {
			file := map[bool]string{true: "p.hcl.json", false: "p.hcl"}[name == "json"]
			dir := folder(t, map[string]string{file: c.text, "m.csv": cpuCSV})
			_, found := findings(t, LoadOptions{}, dir)
			assert.Contains(t, found, c.want)
		})
	}
}

func TestVariablesOfTheirOwnFiles(t *testing.T) {
	text := strings.Replace(plain("variable \"rate\" {\n type = number\n}", "", ""), "rate = 5", "rate = var.rate", 1)
	files := map[string]string{"p.hcl": text, "m.csv": cpuCSV, "terraform.tfvars": "rate = 7\n", "more": "rate = 12\n", "more.json": `{"rate": 9}`}
	dir := folder(t, files)
	_, found := findings(t, LoadOptions{}, dir)
	assert.Equal(t, 1, strings.Count(found, "\n"), "a variable without a value is one finding: %s", found)
	assert.Contains(t, found, "p.hcl:1:1: error: Variable without a value")
	assert.Contains(t, found, "terraform.tfvars is not read by itself")

	rate := func(o LoadOptions) float64 {
		doc, found := findings(t, o, dir)
		require.Empty(t, found)
		return doc.Pipelines[0].Rate
	}
	path := func(name string) []string { return []string{filepath.Join(dir, name)} }
	assert.Equal(t, 9.0, rate(LoadOptions{VarFiles: path("more.json")}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.auto.hclvars"), []byte("rate = 6\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.auto.hclvars.json"), []byte(`{"rate": 8}`), 0o600))
	assert.Equal(t, 8.0, rate(LoadOptions{Env: []string{"HARPAGON_VAR_rate=20"}}), "the last of them, before the environment")
	assert.Equal(t, 12.0, rate(LoadOptions{VarFiles: path("more")}))
	assert.Equal(t, 40.0, rate(LoadOptions{VarFiles: path("more"), Vars: map[string]string{"rate": "40"}}))
	_, found = findings(t, LoadOptions{}, filepath.Join(dir, "p.hcl"))
	assert.Contains(t, found, "Variable without a value", "a file that is named is read alone")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c.auto.hclvars"), []byte("rates = 6\n"), 0o600))
	_, found = findings(t, LoadOptions{}, dir)
	assert.Contains(t, found, "c.auto.hclvars:1:1: error: Undeclared variable")
}

func TestValidationOfVariables(t *testing.T) {
	text := plain(`variable "rate" {
  type    = number
  default = 5
  validation {
    condition     = var.rate > 0 && var.rate < var.most
    error_message = "at least one, below ${var.most}"
  }
}
variable "most" { default = 100 }`, "", "")
	dir := folder(t, map[string]string{"p.hcl": text, "m.csv": cpuCSV, "vars": "rate = 200\n"})
	_, found := findings(t, LoadOptions{}, dir)
	require.Empty(t, found)
	_, found = findings(t, LoadOptions{Vars: map[string]string{"rate": "0"}}, dir)
	assert.Contains(t, found, `p.hcl:1:1: error: Variable out of bounds: The value of "rate" is not allowed (`)
	assert.Contains(t, found, "at least one, below 100")
	_, found = findings(t, LoadOptions{VarFiles: []string{filepath.Join(dir, "vars")}}, dir)
	assert.Contains(t, found, "vars:1:1: error: Variable out of bounds", "where the value was given")
	_, found = findings(t, LoadOptions{Vars: map[string]string{"rate": "fast"}}, dir)
	assert.Equal(t, 1, strings.Count(found, "\n"), found)
}

// TestForEach makes pipelines and modules of one block each, ports included.
func TestForEach(t *testing.T) {
	dir := folder(t, map[string]string{"m.csv": cpuCSV, "p.hcl": `
hardware "cpu" { price = 1 }
pipeline "camera" {
  for_each = { north = 10, south = 20 }
  slo      = "1s"
  rate     = each.value
  input "x" {
    for_each = range(2)
    datatype = "FP32"
    shape    = [4]
  }
  module "detect" {
    for_each = ["left", "right"]
    profile  = "m.csv"
    inputs   = { x = each.key == "left" ? input.x[0] : input.x[1], "name" = each.value }
  }
  module "join" {
    profile = "m.csv"
    inputs  = { a = module.detect["left"].y, b = module.detect["right"].y }
  }
  output "y" {
    for_each = toset(["left", "right"])
    value    = module.detect[each.key].y
  }
  output "all" { value = module.join.y }
}
`})
	doc, found := findings(t, LoadOptions{}, dir)
	require.Empty(t, found)
	require.Len(t, doc.Pipelines, 2)
	for i, want := range []struct {
		name string
		rate float64
	}{{"camera-north", 10}, {"camera-south", 20}} {
		p := doc.Pipelines[i]
		assert.Equal(t, want.name, p.Name)
		assert.Equal(t, want.rate, p.Rate)
		assert.Equal(t, "x-1", p.Inputs[1].Name)
		assert.Equal(t, []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x-1"}}, {Name: "name", Value: "right"}}, p.Module("detect-right").Inputs)
		assert.Equal(t, []pipelines.Binding{
			{Name: "a", From: pipelines.Ref{Module: "detect-left", Port: "y"}}, {Name: "b", From: pipelines.Ref{Module: "detect-right", Port: "y"}},
		}, p.Module("join").Inputs)
		assert.Equal(t, pipelines.Output{Name: "y-right", From: pipelines.Ref{Module: "detect-right", Port: "y"}}, p.Outputs[1])
	}
	printed, diags := Parse(filepath.Join(dir, "p.hcl"), HCL(doc))
	require.Empty(t, diags)
	require.Equal(t, doc, printed.Document, "what is printed is what was made")

	for name, c := range map[string]struct{ value, want string }{
		"nothing": {"[]", "Nothing to repeat"}, "a number": {"3", "Nothing to repeat"}, "no names": {"[[1]]", "must be an object, or a list of names"},
		"twice": {`["a", "a"]`, "Declared twice"}, "no name": {`["a b"]`, "Invalid name"}, "unknown": {"var.none", "no argument"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"m.csv": cpuCSV, "p.hcl": plain("", "", "for_each = "+c.value)})
			_, found := findings(t, LoadOptions{}, dir)
			assert.NotEmpty(t, found)
			if name != "unknown" {
				assert.Contains(t, found, c.want)
			}
		})
	}
}

// TestJSON reads the same of both syntaxes.
func TestJSON(t *testing.T) {
	dir := folder(t, map[string]string{"m.csv": cpuCSV, "p.hcl.json": `{
  "variable": {"rate": {"type": "number", "default": 5, "validation": {"condition": "${var.rate > 0}", "error_message": "positive"}}},
  "locals": {"slo": "${format(\"%ds\", 1)}"},
  "hardware": {"cpu": {"price": 1}},
  "pipeline": {"p": {
    "slo": "${local.slo}", "rate": "${var.rate}",
    "input": {"x": {"datatype": "FP32", "shape": [4]}},
    "module": {"m": {"for_each": ["a", "b"], "profile": "m.csv", "inputs": {"x:0": "${input.x}", "k": [1, 2], "name": "${each.key}!"}}},
    "output": {"y": {"value": "${module.m[\"a\"].y}"}, "z": {"value": "${module.m.b[\"out:0\"]}"}}
  }}
}`})
	doc, found := findings(t, LoadOptions{}, dir)
	require.Empty(t, found)
	p := doc.Pipelines[0]
	assert.Equal(t, 5.0, p.Rate)
	assert.Equal(t, []pipelines.Binding{{Name: "x:0", From: pipelines.Ref{Port: "x"}}, {Name: "k", Value: []any{1.0, 2.0}}, {Name: "name", Value: "b!"}}, p.Module("m-b").Inputs)
	assert.Equal(t, pipelines.Ref{Module: "m-b", Port: "out:0"}, p.Outputs[1].From)
	_, found = findings(t, LoadOptions{Vars: map[string]string{"rate": "0"}}, dir)
	assert.Contains(t, found, "positive")

	for name, c := range map[string]struct{ text, want string }{
		"deep":        {strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "Too complex"},
		"long":        {`{"locals": {"a": "${` + strings.Repeat("1+", 3000) + `1}"}}`, "Too complex"},
		"no JSON":     {`{"pipeline": `, "p.hcl.json:1:"},
		"a reference": {`{"pipeline": {"p": {"output": {"y": {"value": "input.x"}}}}}`, "Not a reference"},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := findings(t, LoadOptions{}, folder(t, map[string]string{"p.hcl.json": c.text}))
			assert.Contains(t, found, c.want)
		})
	}
}

// TestHints say what a file, a datatype or a shape seems to be.
func TestHints(t *testing.T) {
	dir := folder(t, map[string]string{"lfs.onnx": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "x.pt": "PK", "m.csv": cpuCSV, "m.onnx": "x"})
	for name, c := range map[string]struct{ old, new, want string }{
		"git-lfs":      {`profile = "m.csv"`, `model = "lfs.onnx"`, "git lfs pull"},
		"PyTorch":      {`profile = "m.csv"`, `model = "x.pt"`, "is a network of PyTorch. Engines read ONNX: export it"},
		"Triton":       {`"FP32"`, `"TYPE_FP32"`, `Did you mean "FP32"?`},
		"Triton text":  {`"FP32"`, `"TYPE_STRING"`, `Did you mean "BYTES"?`},
		"NumPy":        {`"FP32"`, `"float32"`, `Did you mean "FP32"?`},
		"batch":        {`shape    = [4]`, `shape    = [1, 4]`, "A shape is that of one request, without the batch: shape = [4]"},
		"unused input": {`input "x"`, "input \"z\" {\n datatype = \"FP32\"\n shape = [1]\n }\n input \"x\"", `p.hcl:7:3: warning: Unused input: Nothing reads "z"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(plain("", "", ""), c.old, c.new, 1)
			if name == "batch" {
				text = strings.Replace(text, `profile = "m.csv"`, `model = "m.onnx"`, 1)
			}
			path := filepath.Join(dir, "p.hcl")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			config, diags := Load(LoadOptions{}, path)
			diags = append(diags, config.Validate(func(pipelines.Module) (pipelines.Signature, error) {
				port := func(name string) []pipelines.Port {
					return []pipelines.Port{{Name: name, Datatype: "FP32", Shape: []int64{4}}}
				}
				return pipelines.Signature{Inputs: port("x"), Outputs: port("y")}, nil
			})...)
			var found []string
			for _, f := range Findings(diags) {
				found = append(found, f.String())
			}
			assert.Contains(t, strings.Join(found, "\n"), c.want)
		})
	}
	dir = folder(t, map[string]string{"m.csv": cpuCSV, "p.hcl": strings.NewReplacer("x = input.x", "53 = input.x", "module.m.y", "module.m.53").Replace(plain("", "", ""))})
	doc, found := findings(t, LoadOptions{}, dir)
	require.Empty(t, found, "names may be numbers, as PyTorch makes them")
	assert.Equal(t, "53", doc.Pipelines[0].Modules[0].Inputs[0].Name)
	assert.Equal(t, "53", doc.Pipelines[0].Outputs[0].From.Port)
	printed, diags := Parse("p.hcl", HCL(doc))
	require.Empty(t, diags)
	assert.Equal(t, doc.Pipelines[0].Outputs, printed.Document.Pipelines[0].Outputs)
}

// FuzzJSON reads any text without a panic.
func FuzzJSON(f *testing.F) {
	f.Add(`{"locals": {"a": "${[for x in range(3) : x]}"}, "pipeline": {"p": {"for_each": ["a"], "slo": "${each.key}"}}}`)
	f.Add(`{"pipeline": [{"p": {"module": {"m": {"inputs": {"x": "${module.a[each.key].y}"}}}}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "p.hcl.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		c, _ := Load(LoadOptions{}, path)
		_ = c.Validate(nil)
	})
}
