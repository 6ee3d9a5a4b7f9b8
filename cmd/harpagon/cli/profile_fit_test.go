package cli

import (
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler/functions"
)

func TestProfileFit(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("platform,size,batch,latency_ms\n")
	for _, c := range []float64{0.5, 1, 1.5, 2, 4} {
		ms := 1e3 * (2*math.Exp(-c/0.6) + 0.2)
		fmt.Fprintf(&b, "cpu,%v,1,%v\ncpu,%v,1,%v\n", c, ms*0.9, c, ms*1.1)
	}
	for _, batch := range []int{1, 8, 16} {
		fmt.Fprintf(&b, "gpu,24,%d,%v\n", batch, 2+1.5*float64(batch))
	}
	calls, out := filepath.Join(dir, "calls.csv"), filepath.Join(dir, "model.json")
	require.NoError(t, os.WriteFile(calls, []byte(b.String()), 0o600))

	got := run(t, "profile", "--fit", calls, "--out", out)
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stderr, "cpu, batch 1, maximum")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	p, diags := files.ReadFunctionProfile(out, text)
	require.False(t, diags.HasErrors(), "%v", diags)
	assert.InEpsilon(t, 0.6, p.CPU[0].Avg.Beta, 1e-3)
	assert.InEpsilon(t, 2.2, p.CPU[0].Max.Alpha, 1e-3)
	assert.InEpsilon(t, 0.0015, p.GPU.Xi1, 1e-6)
	assert.Equal(t, 24.0, p.GPU.WholeGB)

	got = run(t, "profile", "--fit", calls)
	assert.Equal(t, string(text), got.stdout)
}

func TestProfileFitRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "begins with the columns platform,size,batch,latency_ms",
		"platform,size,batch\n": "calls.csv:1: column latency_ms is missing",
		"platform,size,batch,latency_ms\ncpu,1,1,fast\n": `calls.csv:2:9: "fast" in column latency_ms is not a number`,
		"platform,size,batch,latency_ms\ncpu,1,1,5\n":    "a curve needs three",
	} {
		calls := filepath.Join(t.TempDir(), "calls.csv")
		require.NoError(t, os.WriteFile(calls, []byte(text), 0o600))
		got := run(t, "profile", "--fit", calls)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, want)
	}
	assert.Contains(t, run(t, "profile", "--fit", "none.csv").stderr, "cannot be read")
}

// A function is called at a provider that runs a known model; its profile need not
// exist yet, and plans by what comes out.
func TestProfileOfAFunctionByCalls(t *testing.T) {
	dir := t.TempDir()
	write := func(url string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "f.hcl"), []byte(`
provider "cloud" {
  vcpu_second = 1
  invocation  = 0.1
  vcpu        = { min = 0.5, max = 4, step = 0.5 }
  url         = "`+url+`/v2/models/{function}-{platform}-{size}"
}
function "f" {
  provider = provider.cloud
  profile  = "f.json"
  input "x" {
    datatype = "FP32"
    shape    = [2]
  }
  application "a" {
    slo  = "1s"
    rate = 2
  }
}
`), 0o600))
	}
	model := `{"cpu_avg": [{"batch": 1, "alpha": 0.004, "beta": 1.5, "gamma": 0.002}], "cpu_max": [{"batch": 1, "alpha": 0.004, "beta": 1.5, "gamma": 0.002}]}`
	file := filepath.Join(dir, "f.json")
	require.NoError(t, os.WriteFile(file, []byte(model), 0o600))
	write("http://127.0.0.1:9100")
	config, diags := hcl.Load(hcl.LoadOptions{}, dir)
	require.False(t, diags.HasErrors(), "%v", diags)
	host, err := provider.New(provider.Options{Problems: []functions.Problem{{Function: config.Document.Functions[0], Provider: config.Document.Providers[0]}}, Steady: true, ColdStart: 2 * time.Millisecond})
	require.NoError(t, err)
	defer func() { _ = host.Close() }()
	s := httptest.NewServer(host)
	defer s.Close()
	write(s.URL)
	require.NoError(t, os.Remove(file))

	calls := filepath.Join(dir, "calls.csv")
	got := run(t, "profile", dir, "--function", "f", "--calls", "2", "--out", file, "--save-calls", calls)
	require.Equal(t, ExitOK, got.code, got.stderr)
	for _, want := range []string{"0.5 vCPU, batch 1: ", "by the declared terms", "the way to the provider and back takes", "a cold start takes", "cpu, batch 1, average", "wrote " + file, "wrote " + calls} {
		assert.Contains(t, got.stderr, want)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	p, diags := files.ReadFunctionProfile(file, text)
	require.False(t, diags.HasErrors(), "%v", diags)
	assert.InEpsilon(t, 1.5, p.CPU[0].Avg.Beta, 0.02)
	assert.Greater(t, p.Calls.Way, 0.0)
	assert.GreaterOrEqual(t, p.Calls.ColdStart, 0.002)

	got = run(t, "plan", dir)
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "which no maximum latency holds")
	again := run(t, "profile", "--fit", calls)
	require.Equal(t, ExitOK, again.code, again.stderr)
	assert.Contains(t, again.stdout, `"cpu_max"`)

	assert.Contains(t, run(t, "profile", dir, "--function", "g").stderr, `no function is called "g"`)
	assert.Contains(t, run(t, "profile", dir, "--function", "f", "--calls", "0").stderr, "--calls 0: take 1 or more")
	s.Close()
	got = run(t, "profile", dir, "--function", "f", "--calls", "1")
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "cannot be reached")
}
