package hcl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

const traffic = `
variable "rate" {
  type    = number
  default = 100
}

locals {
  fan  = local.base + 0.8
  base = 1
}

hardware "v100" {
  price  = 3.06
  memory = "16GiB"
  count  = 8
}

pipeline "traffic" {
  slo  = "400ms"
  rate = var.rate

  input "frame" {
    datatype = "FP32"
    shape    = [3, 96, 96]
  }

  module "detect" {
    profile = "detect.csv"
    inputs  = { image = input.frame }
  }

  module "vehicle" {
    profile = "vehicle.csv"
    inputs  = { crop = module.detect.vehicles }
    fanout  = local.fan
  }

  output "vehicles" { value = module.vehicle.label }
}
`

const profileCSV = "hardware,batch,concurrency,duration_ms\nv100,1,1,20\nv100,8,1,80.5\n"

// folder writes files and returns where they are.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestLoad(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": traffic, "detect.csv": profileCSV, "vehicle.csv": profileCSV, "notes.txt": "{"})
	c, diags := Load(LoadOptions{}, dir)
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	points := []pipelines.Point{{Hardware: "v100", Batch: 1, Concurrency: 1, Duration: 20 * time.Millisecond}, {Hardware: "v100", Batch: 8, Concurrency: 1, Duration: 80500 * time.Microsecond}}
	assert.Equal(t, pipelines.Document{
		Hardware: []pipelines.Hardware{{Name: "v100", Price: 3.06, Memory: 16 << 30, Count: 8}},
		Pipelines: []pipelines.Pipeline{{
			Name: "traffic", SLO: 400 * time.Millisecond, Rate: 100, Arrivals: pipelines.ArrivalsPoisson,
			Inputs: []pipelines.Port{{Name: "frame", Datatype: "FP32", Shape: []int64{3, 96, 96}}},
			Modules: []pipelines.Module{
				{Name: "detect", Fanout: 1, Inputs: []pipelines.Binding{{Name: "image", From: pipelines.Ref{Port: "frame"}}}, ProfileFile: filepath.Join(dir, "detect.csv"), Profile: pipelines.Profile{Points: points}},
				{Name: "vehicle", Fanout: 1.8, Scatter: true, Inputs: []pipelines.Binding{{Name: "crop", From: pipelines.Ref{Module: "detect", Port: "vehicles"}}}, ProfileFile: filepath.Join(dir, "vehicle.csv"), Profile: pipelines.Profile{Points: points}},
			},
			Outputs: []pipelines.Output{{Name: "vehicles", From: pipelines.Ref{Module: "vehicle", Port: "label"}}},
		}},
	}, c.Document)
}

func TestVariablesByPrecedence(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": traffic, "detect.csv": profileCSV, "vehicle.csv": profileCSV, "vars": "rate = 30\n", "bad": "rates = 1\n"})
	hcl, vars := filepath.Join(dir, "a.hcl"), filepath.Join(dir, "vars")
	rate := func(o LoadOptions) float64 {
		c, diags := Load(o, hcl)
		require.Empty(t, diags)
		return c.Document.Pipelines[0].Rate
	}
	env := []string{"HARPAGON_VAR_rate=20", "HARPAGON_VAR_unrelated=x", "HOME=/"}
	assert.Equal(t, 100.0, rate(LoadOptions{}))
	assert.Equal(t, 20.0, rate(LoadOptions{Env: env}))
	assert.Equal(t, 30.0, rate(LoadOptions{Env: env, VarFiles: []string{vars}}))
	assert.Equal(t, 40.0, rate(LoadOptions{Env: env, VarFiles: []string{vars}, Vars: map[string]string{"rate": "40"}}))

	_, diags := Load(LoadOptions{Vars: map[string]string{"rat": "40"}}, hcl)
	assert.ErrorContains(t, diags, `Did you mean "rate"?`)
	_, diags = Load(LoadOptions{Vars: map[string]string{"rate": "fast"}}, hcl)
	assert.ErrorContains(t, diags, "must be of type number")
	_, diags = Load(LoadOptions{VarFiles: []string{filepath.Join(dir, "bad")}}, hcl)
	assert.ErrorContains(t, diags, "bad:1")
}

// TestFindings feeds declarations with one mistake each and looks for the
// place and the words of the finding.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change []string // pairs: old, new
		files  map[string]string
		want   string // file:line:column: severity: ...
	}{
		"syntax":              {change: []string{"slo  = \"400ms\"", "slo  = "}, want: "a.hcl:19:"},
		"unknown attribute":   {change: []string{"fanout ", "fannout "}, want: `a.hcl:35:5: error: Unsupported argument`},
		"unknown block":       {change: []string{`output "vehicles"`, `outptu "vehicles"`}, want: "a.hcl:38:3: error: Unsupported block type"},
		"wrong unit":          {change: []string{`"400ms"`, `"400 bananas"`}, want: `a.hcl:19:10: error: Wrong unit: "400 bananas" is not a duration`},
		"no unit":             {change: []string{`"400ms"`, `400`}, want: `a.hcl:19:10: error: Wrong unit: "400" is not a duration`},
		"wrong memory":        {change: []string{`"16GiB"`, `"16 gigs"`}, want: `a.hcl:14:12: error: Wrong unit: "16 gigs"`},
		"quoted number":       {change: []string{"price  = 3.06", `price = "3.06"`}, want: "a.hcl:13:11: error: Wrong kind of value"},
		"huge number":         {change: []string{"price  = 3.06", `price = 1e999`}, want: "a.hcl:13:11: error: Number out of range"},
		"unknown input":       {change: []string{"input.frame }", "input.fram }"}, want: `a.hcl:29:25: error: Unknown reference: The pipeline has no input "fram". Did you mean "frame"?`},
		"unknown module":      {change: []string{"module.detect.vehicles", "module.detekt.vehicles"}, want: `a.hcl:34:24: error: Unknown reference: The pipeline has no module "detekt". Did you mean "detect"?`},
		"no reference":        {change: []string{"module.detect.vehicles", `"detect"`}, want: "a.hcl:34:24: error: Not a reference"},
		"cycle":               {change: []string{"image = input.frame", "image = module.vehicle.label"}, want: "a.hcl:29:25: error: Modules form a cycle: detect waits for itself"},
		"other end of cycle":  {change: []string{"image = input.frame", "image = module.vehicle.label"}, want: "a.hcl:34:24: error: Modules form a cycle: vehicle waits for itself"},
		"declared twice":      {change: []string{`module "vehicle"`, `module "detect"`}, want: `a.hcl:32:3: error: Declared twice`},
		"fanout zero":         {change: []string{"local.fan", "0"}, want: "a.hcl:35:15: error: Invalid fanout: A fanout is the mean number"},
		"mean zero":           {change: []string{"local.fan", "{ mean = 0, max = 8 }"}, want: "a.hcl:35:15: error: Invalid fanout: A fanout is the mean number"},
		"max below mean":      {change: []string{"local.fan", "{ mean = 8.5, max = 8 }"}, want: "a.hcl:35:15: error: Invalid fanout: 8.5 requests per upstream request on average are more than 8 at most"},
		"no max":              {change: []string{"local.fan", "{ mean = 1.8 }"}, want: "a.hcl:35:15: error: Wrong kind of value: Write how many requests"},
		"max null":            {change: []string{"local.fan", "{ mean = 1.8, max = null }"}, want: "a.hcl:35:15: error: Wrong kind of value: Write how many requests"},
		"max infinite":        {change: []string{"local.fan", "{ mean = 1.8, max = 1e999 }"}, want: "a.hcl:35:15: error: Wrong kind of value: Write how many requests"},
		"max not whole":       {change: []string{"local.fan", "{ mean = 1.8, max = 2.5 }"}, want: "a.hcl:35:15: error: Wrong kind of value: Write how many requests"},
		"max too large":       {change: []string{"local.fan", "{ mean = 1.8, max = 65537 }"}, want: "a.hcl:35:15: error: Wrong kind of value: Write how many requests"},
		"no mean":             {change: []string{"local.fan", "{ max = 8 }"}, want: "a.hcl:35:15: error: Wrong kind of value: Write how many requests"},
		"min of a fanout":     {change: []string{"local.fan", "{ mean = 1.8, max = 8, min = 1 }"}, want: "a.hcl:35:15: error: Wrong kind of value: Write how many requests"},
		"gather beside":       {change: []string{"fanout  = local.fan", "gather  = module.vehicle"}, want: "a.hcl:35:15: error: Nothing to gather: No module above \"vehicle\" has a fanout"},
		"gather unknown":      {change: []string{"fanout  = local.fan", "gather  = module.detekt"}, want: `a.hcl:35:15: error: Unknown reference: The pipeline has no module "detekt". Did you mean "detect"?`},
		"gather an output":    {change: []string{"fanout  = local.fan", "gather  = module.detect.vehicles"}, want: "a.hcl:35:15: error: Wrong kind of value: Gather names a module"},
		"gather a number":     {change: []string{"fanout  = local.fan", "gather  = 3"}, want: "a.hcl:35:15: error: Wrong kind of value"},
		"gather in quotes":    {change: []string{"fanout  = local.fan", `gather  = "detect"`}, want: "a.hcl:35:15: error: Wrong kind of value"},
		"share beyond one":    {change: []string{"local.fan", "1.8\n    when    = module.detect.found"}, want: "a.hcl:35:15: error: Invalid fanout: Beside a condition"},
		"when and else":       {change: []string{"fanout  = local.fan", "when    = module.detect.found\n    else    = module.detect.lost"}, want: "a.hcl:36:15: error: Two conditions"},
		"when a text":         {change: []string{"fanout  = local.fan", `when    = "found"`}, want: "a.hcl:35:15: error: Not a reference"},
		"else unknown":        {change: []string{"fanout  = local.fan", `else    = module.detekt.found`}, want: `a.hcl:35:15: error: Unknown reference: The pipeline has no module "detekt"`},
		"when itself":         {change: []string{"fanout  = local.fan", `when    = module.vehicle.found`}, want: `a.hcl:35:15: error: Modules form a cycle`},
		"merge of one":        {change: []string{"module.detect.vehicles", "[module.detect.vehicles]"}, want: "a.hcl:34:24: error: Not two branches: An input takes one of two branches, as in [module.read.text, module.describe.text]"},
		"merge a number":      {change: []string{"module.detect.vehicles", "[module.detect.vehicles, 3]"}, want: "a.hcl:34:49: error: Not a reference"},
		"merge an input":      {change: []string{"module.detect.vehicles", "[module.detect.vehicles, input.frame]"}, want: `a.hcl:34:24: error: Not two branches of one condition: "vehicle" takes module.detect.vehicles or input.frame`},
		"merge unknown":       {change: []string{"module.detect.vehicles", "[module.detect.vehicles, module.detekt.vehicles]"}, want: `a.hcl:34:24: error: Unknown reference: The pipeline has no module "detekt"`},
		"price zero":          {change: []string{"3.06", "0"}, want: "a.hcl:13:12: error: Invalid price"},
		"negative rate":       {change: []string{"rate = var.rate", "rate = -1"}, want: "a.hcl:20:10: error: Invalid rate"},
		"slo too short":       {change: []string{`"400ms"`, `"30ms"`}, want: "a.hcl:19:10: error: SLO cannot be met: SLO 30ms cannot be met: the fastest path detect -> vehicle needs 40 ms."},
		"datatype":            {change: []string{`"FP32"`, `"FP23"`}, want: `a.hcl:23:16: error: Unknown datatype: "FP23" is no datatype of the Open Inference Protocol. Did you mean`},
		"shape":               {change: []string{"[3, 96, 96]", "[3, 0, 96]"}, want: "a.hcl:24:16: error: Invalid shape"},
		"unused":              {change: []string{"value = module.vehicle.label", "value = module.detect.vehicles"}, want: `a.hcl:32:3: error: Unused module`},
		"missing model":       {change: []string{`profile = "detect.csv"`, `model = "no.onnx"`}, want: "a.hcl:28:13: error: Missing model"},
		"missing profile":     {change: []string{`"detect.csv"`, `"no.csv"`}, want: "a.hcl:28:15: error: Missing profile"},
		"unknown hardware":    {change: []string{`hardware "v100"`, `hardware "a100"`}, want: "a.hcl:28:15: error: Gap in the profile"},
		"undeclared variable": {change: []string{"var.rate", "var.rat"}, want: "a.hcl:20:"},
		"locals in a circle":  {change: []string{"base = 1", "base = local.fan"}, want: "error: Locals form a cycle"},
		"dispatch":            {change: []string{"rate = var.rate", "rate = 1\n dispatch = \"tcc\""}, want: `Unknown dispatch policy: There is no dispatch policy "tcc". Did you mean "tc"?`},
		"dispatch of pools":   {change: []string{"rate = var.rate", "rate = 1\n  dispatch = \"matching\""}, want: "a.hcl:21:14: error: Dispatch policy that does not fit: Policy matching pairs queries"},
		"dispatch of groups":  {change: []string{"rate = var.rate", "rate = 1\n  dispatch = \"grouped\""}, want: "a.hcl:21:14: error: Dispatch policy that does not fit: Policy grouped batches applications"},
		"pools":               {change: []string{"locals {", "pool \"x\" {}\nlocals {"}, want: "error: Missing required argument: The argument \"budget\""},
		"csv word":            {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,fast\n"}, want: `detect.csv:2:8: error: Not a number: "fast" in column duration_ms`},
		"csv nan":             {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,NaN\n"}, want: "detect.csv:2:8: error: Not a number"},
		"csv zero":            {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,0\n"}, want: "detect.csv:2:8: error: Invalid duration"},
		"csv negative":        {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,-4\n"}, want: "detect.csv:2:8: error: Invalid duration"},
		"csv enormous":        {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,1e30\n"}, want: "detect.csv:2:8: error: Invalid duration"},
		"csv batch":           {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,0,5\n"}, want: "detect.csv:2:6: error: Not a whole number"},
		"csv twice":           {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,4\nv100,1,5\n"}, want: "detect.csv:3:1: error: Measured twice"},
		"csv short line":      {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1\n"}, want: "detect.csv:2:6: error: Not a number"},
		"csv no column":       {files: map[string]string{"detect.csv": "hardware,batch\nv100,1\n"}, want: "detect.csv:1:1: error: Missing column"},
		"csv empty":           {files: map[string]string{"detect.csv": ""}, want: "detect.csv:1:1: error: Empty profile"},
		"csv goes on":         {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,4\nv100,1,5\nv100,2,NaN\nv100,4,-3\n"}, want: "detect.csv:5:8: error: Invalid duration"},
		"csv mark":            {files: map[string]string{"detect.csv": "\xef\xbb\xbfhardware,batch,duration_ms\nv100,1,fast\n"}, want: "detect.csv:2:8: error: Not a number"},
		"enormous rate":       {change: []string{"rate = var.rate", "rate = 1e300"}, want: "a.hcl:20:10: error: Invalid rate"},
		"csv falls":           {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\nv100,1,9\nv100,2,8\n"}, want: "detect.csv:3:1: warning: Duration falls with the batch"},
		"csv quote":           {files: map[string]string{"detect.csv": "hardware,batch,duration_ms\n\"v100,1,9\n"}, want: "detect.csv:2:1: error: Broken profile"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer(c.change...).Replace(traffic)
			files := map[string]string{"a.hcl": text, "detect.csv": profileCSV, "vehicle.csv": profileCSV}
			for name, text := range c.files {
				files[name] = text
			}
			dir := folder(t, files)
			config, diags := Load(LoadOptions{}, dir)
			if !diags.HasErrors() {
				diags = append(diags, config.Validate(nil)...)
			}
			var lines []string
			for _, f := range Findings(diags) {
				lines = append(lines, strings.ReplaceAll(f.String(), dir+"/", ""))
			}
			assert.Contains(t, strings.Join(lines, "\n"), c.want)
			var b bytes.Buffer
			require.NoError(t, WriteDiagnostics(&b, config, diags, false))
		})
	}
}

func TestAllFindingsInOnePass(t *testing.T) {
	text := strings.NewReplacer(`"400ms"`, `"soon"`, "3.06", "-1", "input.frame }", "input.fram }", `"FP32"`, `"FP23"`).Replace(traffic)
	dir := folder(t, map[string]string{"a.hcl": text, "detect.csv": profileCSV, "vehicle.csv": profileCSV})
	c, diags := Load(LoadOptions{}, dir)
	diags = append(diags, c.Validate(nil)...)
	assert.Len(t, diags.Errs(), 4, "%v", Findings(diags))
	var b bytes.Buffer
	require.NoError(t, WriteDiagnostics(&b, c, diags, false))
	assert.Contains(t, b.String(), `datatype = "FP23"`, "the snippet is shown")
}

func TestShapes(t *testing.T) {
	signatures := map[string]pipelines.Signature{
		"detect":  {Inputs: []pipelines.Port{{Name: "image", Datatype: "FP32", Shape: []int64{3, 96, 96}}}, Outputs: []pipelines.Port{{Name: "vehicles", Datatype: "FP32", Shape: []int64{-1, 3, 24, 24}}}},
		"vehicle": {Inputs: []pipelines.Port{{Name: "crop", Datatype: "FP32", Shape: []int64{3, 24, 24}}}, Outputs: []pipelines.Port{{Name: "label", Datatype: "BYTES", Shape: []int64{}}}},
	}
	check := func(change ...string) string {
		text := strings.NewReplacer(change...).Replace(traffic)
		c, diags := Load(LoadOptions{}, folder(t, map[string]string{"a.hcl": text, "detect.csv": profileCSV, "vehicle.csv": profileCSV}))
		require.False(t, diags.HasErrors(), diags)
		return c.Validate(func(m pipelines.Module) (pipelines.Signature, error) { return signatures[m.Name], nil }).Error()
	}
	assert.Contains(t, check(), "no diagnostics")
	assert.Contains(t, check("fanout  = local.fan", ""), "Give the module a fanout")
	signatures["detect"].Outputs[0].Shape[0] = 16
	assert.Contains(t, check("local.fan", "16"), "no diagnostics")
	assert.Contains(t, check("local.fan", "{ mean = 16, max = 16 }"), "no diagnostics")
	assert.Contains(t, check(), `module.detect.vehicles always has 16 rows, so that this is how many requests "vehicle" gets of it: write fanout = 16.`)
	assert.Contains(t, check("local.fan", "{ mean = 16, max = 20 }"), "always has 16 rows")
	assert.Contains(t, check("fanout  = local.fan", ""), "Give the module a fanout")
	signatures["detect"].Outputs[0].Shape = []int64{3, 24, 24}
	assert.Contains(t, check("fanout  = local.fan", "when = module.detect.vehicles"), "no diagnostics")
	assert.Contains(t, check("fanout  = local.fan", "when = module.detect.found"), `no output "found"`)
	signatures["detect"].Outputs[0].Shape = []int64{-1, 3, 24, 24}
	assert.Contains(t, check("fanout  = local.fan", "when = module.detect.vehicles"), "Shapes differ", "nothing is split")
	assert.Contains(t, check("[3, 96, 96]", "[1, 96, 96]"), "input.frame has shape [1 96 96], but the model of \"detect\" takes [3 96 96]")
	assert.Contains(t, check(`"FP32"`, `"UINT8"`), "input.frame is UINT8")
	assert.Contains(t, check("image =", "img ="), `has no input "img"`)
	assert.Contains(t, check("module.detect.vehicles", "module.detect.boxes"), `no output "boxes"`)
}

func TestSourcesThatAreNotThere(t *testing.T) {
	_, diags := Load(LoadOptions{}, filepath.Join(t.TempDir(), "nothing"))
	assert.ErrorContains(t, diags, "does not exist")
	_, diags = Load(LoadOptions{}, t.TempDir())
	assert.ErrorContains(t, diags, "holds no *.hcl files")
}
