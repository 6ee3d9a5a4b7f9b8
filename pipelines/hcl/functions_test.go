package hcl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/pipelines/files"
)

const cloudHCL = `provider "cloud" {
  vcpu_second   = 1.3e-5
  gpu_gb_second = 1.5e-5
  invocation    = 1.3e-7
  billing       = "1s"
  vcpu          = { min = 0.05, max = 16, step = 0.05 }
  gpu_memory    = { min = 1, max = 24, step = 1 }
  gpu_slice     = "2ms"
  url           = "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}"
  timeout       = "30s"
  attempts      = 2
}

function "vgg19" {
  provider = provider.cloud
  profile  = "vgg19.json"

  input "image" {
    datatype = "FP32"
    shape    = [3, 224, 224]
  }

  application "app1" {
    slo  = "500ms"
    rate = 5
  }

  application "app2" {
    slo  = "800ms"
    rate = 10
  }
}
`

const coefficients = `{
  "cpu_avg": [
    {"batch": 1, "alpha": 1.826, "beta": 0.528, "gamma": 0.18}
  ],
  "cpu_max": [
    {"batch": 1, "alpha": 2.805, "beta": 0.486, "gamma": 0.249}
  ],
  "gpu": {"device": "A10", "xi1": 0.00168, "xi2": 0.00211, "tau_s": 0.002, "Mmax_gb": 24,
    "batch_thresholds_for_gpu_mem": [0]},
  "knee_rate": {"0.5": 22}
}
`

// billedHCL and billedCoefficients have every term of billing.
var (
	billedHCL = strings.Replace(cloudHCL, "  attempts      = 2\n", `  attempts      = 2

  memory_gb_second   = 9e-6
  memory_per_vcpu    = { min = 1, max = 4, step = 0.0625 }
  gpu_billing        = "500ms"
  gpu_vcpu_per_gb    = 1 / 4
  gpu_latency_factor = 1.2
`, 1)
	billedCoefficients = strings.Replace(coefficients, "{\n", `{
  "memory": {"per_request_mb": 36.5, "fixed_mb": 807, "gpu_gb": 0.5},
`, 1)
)

// TestBilledTerms: the terms beyond sizes and time are read, printed and read again.
func TestBilledTerms(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": billedHCL, "vgg19.json": billedCoefficients})
	c, diags := Load(LoadOptions{}, dir)
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	p := c.Document.Providers[0]
	assert.InDelta(t, 9e-6, p.MemoryGBSecond, 0)
	assert.Equal(t, pipelines.Grid{Min: 1, Max: 4, Step: 0.0625}, p.MemoryPerVCPU)
	assert.Equal(t, 500*time.Millisecond, p.GPUBilling)
	assert.InDelta(t, 0.25, p.GPUVCPUPerGB, 0)
	assert.InDelta(t, 1.2, p.GPULatencyFactor, 0)
	assert.Equal(t, pipelines.HostMemory{PerRequestMB: 36.5, FixedMB: 807, GPUGB: 0.5}, c.Document.Functions[0].Profile.Memory)

	again, diags := Parse(filepath.Join(dir, "a.hcl"), HCL(c.Document))
	require.Empty(t, diags)
	assert.Equal(t, c.Document, again.Document)
	for name, change := range map[string][]string{
		"memory_gb_second": {"= 9e-6", "= -9e-6"}, "memory_per_vcpu": {"step = 0.0625", "step = 0"}, "gpu_billing": {"500ms", "-500ms"},
		"gpu_vcpu_per_gb": {"1 / 4", "-1"}, "gpu_latency_factor": {"= 1.2", "= -1.2"},
	} {
		bad := folder(t, map[string]string{"a.hcl": strings.NewReplacer(change...).Replace(billedHCL), "vgg19.json": billedCoefficients})
		c, diags := Load(LoadOptions{}, bad)
		diags = append(diags, c.Validate(nil)...)
		require.True(t, diags.HasErrors(), name)
		require.NotNil(t, diags[0].Subject, name)
		at := strings.Split(billedHCL, "\n")[diags[0].Subject.Start.Line-1]
		assert.Contains(t, at, name)
	}
}

func TestLoadFunctions(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": cloudHCL, "vgg19.json": coefficients})
	c, diags := Load(LoadOptions{}, dir)
	require.Empty(t, diags)
	require.Empty(t, c.Validate(nil))
	assert.Equal(t, []pipelines.Provider{{
		Name: "cloud", VCPUSecond: 1.3e-5, GPUGBSecond: 1.5e-5, Invocation: 1.3e-7, Billing: time.Second,
		VCPU: pipelines.Grid{Min: 0.05, Max: 16, Step: 0.05}, GPUMemory: pipelines.Grid{Min: 1, Max: 24, Step: 1}, GPUSlice: 2 * time.Millisecond,
		URL: "http://127.0.0.1:9100/v2/models/{function}-{platform}-{size}", Timeout: 30 * time.Second, Attempts: 2,
	}}, c.Document.Providers)
	assert.Equal(t, []pipelines.Function{{
		Name: "vgg19", Provider: "cloud", ProfileFile: filepath.Join(dir, "vgg19.json"),
		Profile: pipelines.FunctionProfile{
			CPU: []pipelines.CPUCurves{{Batch: 1, Avg: pipelines.Curve{Alpha: 1.826, Beta: 0.528, Gamma: 0.18}, Max: pipelines.Curve{Alpha: 2.805, Beta: 0.486, Gamma: 0.249}}},
			GPU: &pipelines.GPULine{Xi1: 0.00168, Xi2: 0.00211, Slice: 0.002, WholeGB: 24, Thresholds: []int{0}},
		},
		Inputs:       []pipelines.Port{{Name: "image", Datatype: "FP32", Shape: []int64{3, 224, 224}}},
		Applications: []pipelines.Application{{Name: "app1", SLO: 500 * time.Millisecond, Rate: 5}, {Name: "app2", SLO: 800 * time.Millisecond, Rate: 10}},
	}}, c.Document.Functions)
	f := &c.Document.Functions[0]
	assert.Equal(t, 15.0, f.Rate())
	assert.Nil(t, f.Application("app3"))
	assert.Equal(t, 10.0, f.Application("app2").Rate)
	need, ok := f.Fastest(c.Document.Provider("cloud"))
	assert.True(t, ok)
	assert.Equal(t, 3790*time.Microsecond, need, "the whole GPU")
}

func TestGrid(t *testing.T) {
	g := pipelines.Grid{Min: 0.05, Max: 16, Step: 0.05}
	assert.Equal(t, 320, g.Len())
	assert.Equal(t, 1.6, g.At(31))
	assert.Equal(t, 16.0, g.At(319))
	assert.Equal(t, 24, pipelines.Grid{Min: 1, Max: 24, Step: 1}.Len())
	assert.Equal(t, 3, pipelines.Grid{Min: 1, Max: 3.9, Step: 1}.Len())
	assert.Zero(t, pipelines.Grid{}.Len())
	assert.Zero(t, pipelines.Grid{Min: 1, Max: 2, Step: 0}.Len())
}

// TestFunctionFindings feeds declarations with one mistake each and looks for
// the place and the words of the finding.
func TestFunctionFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change  []string // pairs: old, new
		profile []string // pairs: old, new
		want    string   // file:line:column: severity: ...
	}{
		"unknown provider":     {change: []string{"provider.cloud", "provider.clud"}, want: `a.hcl:15:14: error: Unknown provider: No provider block declares "clud". Did you mean "cloud"?`},
		"quoted provider":      {change: []string{"provider.cloud", `"cloud"`}, want: "a.hcl:15:14: error: Not a reference"},
		"no provider":          {change: []string{"provider = provider.cloud", ""}, want: "a.hcl:14:"},
		"equal names":          {change: []string{`"app2"`, `"app1"`}, want: `a.hcl:28:3: error: Declared twice: The application "app1" is declared already at `},
		"two functions":        {change: []string{`function "vgg19" {`, "function \"vgg19\" {\n}\nfunction \"vgg19\" {"}, want: "a.hcl:16:1: error: Declared twice"},
		"no application":       {change: []string{cloudHCL[strings.Index(cloudHCL, "  application"):], "}\n"}, want: "a.hcl:14:1: error: No application"},
		"negative rate":        {change: []string{"rate = 10", "rate = -10"}, want: "a.hcl:30:12: error: Invalid rate"},
		"negative slo":         {change: []string{`"800ms"`, `"-800ms"`}, want: "a.hcl:29:12: error: Invalid objective"},
		"no unit":              {change: []string{`"800ms"`, `800`}, want: "a.hcl:29:12: error: Wrong unit"},
		"slo that nothing has": {change: []string{`"500ms"`, `"3ms"`}, want: "a.hcl:24:12: error: SLO cannot be met: SLO 3ms cannot be met: the fastest function takes up to 3.79 ms"},
		"negative price":       {change: []string{"1.3e-5", "-1.3e-5"}, want: "a.hcl:2:19: error: Invalid price"},
		"price of nothing":     {change: []string{"  gpu_gb_second = 1.5e-5\n", ""}, want: "a.hcl:1:1: error: Missing price: The provider has gpu_memory"},
		"negative invocation":  {change: []string{"1.3e-7", "-1"}, want: "a.hcl:4:19: error: Invalid price"},
		"negative billing":     {change: []string{`"1s"`, `"-1s"`}, want: "a.hcl:5:19: error: Invalid granularity"},
		"negative slice":       {change: []string{`"2ms"`, `"-2ms"`}, want: "a.hcl:8:19: error: Invalid time slice"},
		"grid from zero":       {change: []string{"min = 0.05", "min = 0"}, want: "a.hcl:6:27: error: Invalid grid"},
		"grid upside down":     {change: []string{"max = 24", "max = 0.5"}, want: "a.hcl:7:36: error: Invalid grid"},
		"grid without step":    {change: []string{", step = 1 }", " }"}, want: "a.hcl:7:19: error: Incomplete grid: The grid of gpu_memory has no step"},
		"grid of zero step":    {change: []string{", step = 1 }", ", step = 0 }"}, want: "a.hcl:7:47: error: Invalid grid"},
		"grid too fine":        {change: []string{"step = 0.05", "step = 1e-9"}, want: "a.hcl:6:50: error: Invalid grid"},
		"grid of words":        {change: []string{"{ min = 1, max = 24, step = 1 }", `"1-24"`}, want: "a.hcl:7:19: error: Wrong kind of value"},
		"grid member":          {change: []string{"max = 24", "most = 24"}, want: "a.hcl:7:30: error: Not part of a grid"},
		"nothing on offer":     {change: []string{cloudHCL[strings.Index(cloudHCL, "  vcpu   "):strings.Index(cloudHCL, "  gpu_slice")], ""}, want: "a.hcl:1:1: error: Nothing on offer"},
		"unknown attribute":    {change: []string{"rate = 10", "rates = 10"}, want: "a.hcl:30:5: error: Unsupported argument"},
		"word as url":          {change: []string{"http://127.0.0.1:9100/v2/", "cloud/"}, want: "a.hcl:9:19: error: Invalid address: the url must be http://HOST/PATH"},
		"unknown placeholder":  {change: []string{"{size}", "{sise}"}, want: "a.hcl:9:19: error: Invalid address: the url has the placeholder {sise}; there is {provider}, {function}, {platform}, {size}, {vcpu}, {gpu_memory}, {batch}. Did you mean \"size\"?"},
		"open brace":           {change: []string{"{size}", "{size"}, want: "a.hcl:9:19: error: Invalid address: the url has a brace"},
		"password in url":      {change: []string{"127.0.0.1:9100", "me:secret@example.com"}, want: "a.hcl:9:19: error: Invalid address: the url holds a name or password"},
		"query in url":         {change: []string{"{size}", "{size}?x=1"}, want: "a.hcl:9:19: error: Invalid address: the url has a query"},
		"one url for sizes":    {change: []string{"-{size}", ""}, want: "a.hcl:9:19: warning: One address for all sizes"},
		"one url for kinds":    {change: []string{"-{platform}", ""}, want: "a.hcl:9:19: warning: One address for all sizes"},
		"one url for two":      {change: []string{"{function}-", "", `function "vgg19" {`, "function \"other\" {\n provider = provider.cloud\n profile = \"vgg19.json\"\n}\nfunction \"vgg19\" {"}, want: "a.hcl:9:19: error: One address for all functions"},
		"token over http":      {change: []string{"127.0.0.1:9100", "example.com", "attempts      = 2", `token_variable = "CLOUD_TOKEN"`}, want: "a.hcl:9:19: warning: Token over plain HTTP"},
		"token in file":        {change: []string{"attempts      = 2", `token_variable = "sk-123"`}, want: "a.hcl:11:20: error: Not an environment variable"},
		"negative time-out":    {change: []string{`"30s"`, `"-30s"`}, want: "a.hcl:10:19: error: Invalid time-out"},
		"endless time-out":     {change: []string{`"30s"`, `"2h"`}, want: "a.hcl:10:19: error: Invalid time-out"},
		"too many attempts":    {change: []string{"attempts      = 2", "attempts      = 99"}, want: "a.hcl:11:19: error: Invalid number of attempts"},
		"negative concurrency": {change: []string{"attempts      = 2", "concurrency   = -1"}, want: "a.hcl:11:19: error: Invalid concurrency"},
		"unknown datatype":     {change: []string{`"FP32"`, `"FP31"`}, want: "a.hcl:19:16: error: Unknown datatype"},
		"equal inputs":         {change: []string{`  input "image" {`, "  input \"image\" {\n datatype = \"FP32\"\n shape = [1]\n }\n input \"image\" {"}, want: "error: Declared twice: The input \"image\""},
		"missing profile":      {change: []string{"vgg19.json", "no.json"}, want: "a.hcl:16:14: error: Missing profile"},

		"syntax of profile":  {profile: []string{`"alpha": 1.826`, `"alpha": `}, want: "vgg19.json:3:"},
		"negative alpha":     {profile: []string{"1.826", "-1.826"}, want: "vgg19.json:3:27: error: Coefficient out of range: alpha is zero or above"},
		"beta zero":          {profile: []string{"0.486", "0"}, want: "vgg19.json:6:42: error: Coefficient out of range: beta is above zero"},
		"negative xi1":       {profile: []string{"0.00168", "-1"}, want: "vgg19.json:8:35: error: Coefficient out of range"},
		"gpu below zero":     {profile: []string{"0.00211", "-0.00211"}, want: "vgg19.json:8:10: error: Coefficient out of range: By xi1 and xi2 a batch of one takes"},
		"missing gamma":      {profile: []string{`, "gamma": 0.18`, ""}, want: "vgg19.json:3:5: error: Missing coefficient: There is no gamma here"},
		"a word":             {profile: []string{"0.528", `"0.528"`}, want: "vgg19.json:3:42: error: Wrong kind of value"},
		"half a batch":       {profile: []string{`"batch": 1, "alpha": 1`, `"batch": 1.5, "alpha": 1`}, want: "vgg19.json:3:15: error: Coefficient out of range: batch is a whole number"},
		"other batch":        {profile: []string{`"batch": 1, "alpha": 1`, `"batch": 2, "alpha": 1`}, want: "vgg19.json:5:14: error: Half a profile: cpu_avg knows batch 2"},
		"half a profile":     {profile: []string{`"cpu_max"`, `"cpu_most"`}, want: "vgg19.json:1:1: error: Half a profile"},
		"thresholds":         {profile: []string{"[0]", "[4, 2]"}, want: "vgg19.json:9:41: error: Coefficient out of range"},
		"all models":         {profile: []string{`"cpu_avg"`, `"models": {}, "cpu_avg"`}, want: "vgg19.json:2:3: error: Several models"},
		"nothing in profile": {profile: []string{coefficients, `{"name": "x"}`}, want: "vgg19.json:1:1: error: Empty profile"},
		"a list":             {profile: []string{coefficients, `[1]`}, want: "vgg19.json:1:1: error: "},
		"no platform fits": {change: []string{"  vcpu          = { min = 0.05, max = 16, step = 0.05 }\n", ""}, profile: []string{`"gpu"`, `"tpu"`},
			want: `a.hcl:15:14: error: No function fits: The profile is of CPU functions, and provider "cloud" offers GPU functions.`},
		"larger than device": {change: []string{"max = 24", "max = 48"}, want: "a.hcl:16:14: warning: Larger than the device"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{
				"a.hcl":      strings.NewReplacer(c.change...).Replace(cloudHCL),
				"vgg19.json": strings.NewReplacer(c.profile...).Replace(coefficients),
			})
			config, diags := Load(LoadOptions{}, dir)
			diags = append(diags, config.Validate(nil)...)
			var lines []string
			for _, f := range Findings(diags) {
				lines = append(lines, strings.ReplaceAll(f.String(), dir+"/", ""))
			}
			assert.Contains(t, strings.Join(lines, "\n"), c.want)
			assert.NotEmpty(t, lines)
		})
	}
}

// TestGridFromVariables takes a grid from elsewhere.
func TestGridFromVariables(t *testing.T) {
	text := strings.Replace(cloudHCL, "{ min = 1, max = 24, step = 1 }", "local.sizes", 1) + "\nlocals {\n sizes = { min = 2, max = 8, step = 2 }\n}\n"
	dir := folder(t, map[string]string{"a.hcl": text, "vgg19.json": coefficients})
	c, diags := Load(LoadOptions{}, dir)
	require.Empty(t, diags)
	assert.Equal(t, pipelines.Grid{Min: 2, Max: 8, Step: 2}, c.Document.Providers[0].GPUMemory)
}

func TestPrintFunctions(t *testing.T) {
	canonical := strings.NewReplacer("1.3e-5", "0.000013", "1.5e-5", "0.000015", "1.3e-7", "0.00000013", "vgg19.json", "/nowhere/vgg19.json").Replace(cloudHCL)
	c, diags := Parse("/a.hcl", []byte(canonical))
	require.True(t, diags.HasErrors(), "there is no such profile")
	assert.Equal(t, canonical, string(HCL(c.Document)))
}

func TestFunctionsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		positive := rapid.Float64Range(1e-9, 100)
		grid := func(name string) pipelines.Grid {
			low := positive.Draw(t, name)
			return pipelines.Grid{Min: low, Max: low + positive.Draw(t, name), Step: positive.Draw(t, name)}
		}
		text := rapid.StringMatching(`[a-zA-Z0-9 "$%{}é/_.-]{0,12}`)
		doc := pipelines.Document{Providers: []pipelines.Provider{{
			URL: text.Draw(t, "url"), TokenVariable: text.Draw(t, "token"), Timeout: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "timeout")),
			Attempts: rapid.IntRange(0, 20).Draw(t, "attempts"), Concurrency: rapid.IntRange(0, 1e6).Draw(t, "concurrency"),
			Name: "a.b", VCPUSecond: positive.Draw(t, "vcpu"), GPUGBSecond: positive.Draw(t, "gpu"), Invocation: positive.Draw(t, "call"),
			Billing: time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "billing")), VCPU: grid("cores"), GPUMemory: grid("memory"),
			GPUSlice: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "slice")), Overhead: time.Duration(rapid.Int64Range(0, 1e9).Draw(t, "overhead")),
			Manage: rapid.Bool().Draw(t, "manage"), ManageURL: text.Draw(t, "hook"),
		}}}
		if rapid.Bool().Draw(t, "billed") {
			p := &doc.Providers[0]
			p.MemoryGBSecond, p.MemoryPerVCPU, p.GPUBilling = positive.Draw(t, "memory second"), grid("per vCPU"), time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "gpu billing"))
			p.GPUVCPUPerGB, p.GPULatencyFactor = positive.Draw(t, "vcpu per GB"), positive.Draw(t, "factor")
		}
		f := pipelines.Function{Name: "f", Provider: "a.b", ProfileFile: "/dev/null/none.json"}
		if rapid.Bool().Draw(t, "computes") {
			f.Model = "/m/" + text.Draw(t, "model")
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "inputs") {
			f.Inputs = append(f.Inputs, pipelines.Port{Name: fmt.Sprintf("in%d", i), Datatype: "FP32", Shape: rapid.SliceOfN(rapid.Int64Range(1, 512), 0, 3).Draw(t, "shape")})
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "applications") {
			f.Applications = append(f.Applications, pipelines.Application{
				Name: fmt.Sprintf("app-%d", i), SLO: time.Duration(rapid.Int64Range(1, 1e11).Draw(t, "slo")), Rate: positive.Draw(t, "rate"),
			})
		}
		doc.Functions = []pipelines.Function{f}
		printed := HCL(doc)
		c, _ := Parse("/printed.hcl", printed)
		require.Equal(t, doc, c.Document, string(printed))
	})
}

func TestCallURL(t *testing.T) {
	p := pipelines.Provider{Name: "cloud", URL: "https://h/{provider}/{function}/{platform}-{size}-{vcpu}-{gpu_memory}-{batch}"}
	at, err := p.CallURL(pipelines.FunctionSize{Function: "vgg19", Platform: "cpu", VCPU: 1.65, Batch: 2})
	require.NoError(t, err)
	assert.Equal(t, "https://h/cloud/vgg19/cpu-1.65-1.65-0-2", at)
	at, err = p.CallURL(pipelines.FunctionSize{Function: "vgg19", Platform: "gpu", GPUMemory: 2, Batch: 13})
	require.NoError(t, err)
	assert.Equal(t, "https://h/cloud/vgg19/gpu-2-0-2-13", at)
	_, err = (&pipelines.Provider{Name: "cloud"}).CallURL(pipelines.FunctionSize{})
	assert.ErrorContains(t, err, "has no url")
	_, err = (&pipelines.Provider{Name: "cloud", URL: "ftp://h"}).CallURL(pipelines.FunctionSize{})
	assert.ErrorContains(t, err, "http://HOST/PATH")
	assert.Equal(t, pipelines.DefaultCallTimeout, p.CallTimeout())
	assert.Equal(t, pipelines.DefaultCallAttempts, p.CallAttempts())
	assert.Equal(t, pipelines.DefaultCallConcurrency, p.CallConcurrency())
}

func TestFunctionBuilder(t *testing.T) {
	cloud := pipelines.Provider{Name: "cloud", VCPUSecond: 1, VCPU: pipelines.Grid{Min: 1, Max: 4, Step: 1}, URL: "http://localhost/{function}-{size}"}
	curves := pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{{Batch: 1, Avg: pipelines.Curve{Alpha: 1, Beta: 1, Gamma: 0.1}, Max: pipelines.Curve{Alpha: 1, Beta: 1, Gamma: 0.2}}}}
	f, err := build.NewFunction("f", cloud).Profile(curves).Model("m.onnx").Input("x", "FP32", 2).Application("a", time.Second, 3).Build()
	require.NoError(t, err)
	assert.Equal(t, pipelines.Function{
		Name: "f", Provider: "cloud", Profile: curves, Model: "m.onnx",
		Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}, Applications: []pipelines.Application{{Name: "a", SLO: time.Second, Rate: 3}},
	}, f)
	_, err = build.NewFunction("no name", cloud).Profile(curves).Input("x", "FP31").Application("a/b", 0, 3).Build()
	for _, want := range []string{"cannot name a function", "cannot name an application", "Unknown datatype", "Invalid objective"} {
		assert.ErrorContains(t, err, want)
	}
}

func FuzzReadFunctionProfile(f *testing.F) {
	f.Add([]byte(coefficients))
	f.Add([]byte(billedCoefficients))
	f.Add([]byte(`{"cpu_avg":[],"cpu_max":[{}],"gpu":null}`))
	f.Add([]byte(`{"gpu":{"xi1":1,"xi2":-0.5,"max_batch":3,"batch_thresholds_for_gpu_mem":[1,2]}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		p, diags := files.ReadFunctionProfile("p.json", src)
		for _, d := range diags {
			if d.Severity == hcl.DiagError && (d.Subject == nil || d.Subject.Start.Line < 1) {
				t.Fatalf("finding without a place: %v", d)
			}
		}
		if diags.HasErrors() {
			return
		}
		printed, err := p.JSON()
		require.NoError(t, err)
		again, diags := files.ReadFunctionProfile("p.json", printed)
		require.False(t, diags.HasErrors(), "%v\n%s", diags, printed)
		if p.GPU != nil && len(p.GPU.Thresholds) == 0 {
			p.GPU.Thresholds = nil
		}
		require.Equal(t, p, again)
	})
}

func FuzzParseFunctions(f *testing.F) {
	f.Add([]byte(cloudHCL))
	f.Add([]byte(billedHCL))
	f.Add([]byte(`provider "a.b" { invocation = 0, vcpu = { "min" = 1, (x) = 2 } }`))
	f.Add([]byte(`function "f" { provider = provider["a.b"] }`))
	f.Fuzz(func(t *testing.T, src []byte) {
		defer testkit.WatchStalls(t, len(src))()
		c, _ := Parse("/fuzz.hcl", src)
		c.Validate(nil)
		if len(c.Document.Functions) > 100 {
			return
		}
		for i := range c.Document.Functions {
			c.Document.Functions[i].ProfileFile = "" // printing makes it absolute
		}
		printed := HCL(c.Document)
		again, _ := Parse("/fuzz.hcl", printed)
		assert.Equal(t, string(printed), string(HCL(again.Document)))
	})
}

func ExampleReadFunctionProfile() {
	src, err := os.ReadFile("testdata/function.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, diags := files.ReadFunctionProfile("function.json", src)
	if diags.HasErrors() {
		fmt.Println(diags)
		return
	}
	device := pipelines.GPUDevice{Memory: 24, Slice: 0.002}
	fmt.Printf("one request on 1.6 vCPU: %.0f ms, at most %.0f ms\n", 1e3*p.CPU[0].Avg.At(1.6), 1e3*p.CPU[0].Max.At(1.6))
	fmt.Printf("13 requests on 2 GB of a GPU: %.0f ms, at most %.0f ms\n", 1e3*p.GPU.Avg(13, 2, device), 1e3*p.GPU.Max(13, 2, device))
	// Output:
	// one request on 1.6 vCPU: 269 ms, at most 353 ms
	// 13 requests on 2 GB of a GPU: 287 ms, at most 288 ms
}
