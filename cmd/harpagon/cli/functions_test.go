package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// quickFolder has a function of a few milliseconds, whose provider is there.
func quickFolder(t *testing.T, url string) string {
	const from = "../../../examples/functions/testdata/"
	return folder(t, map[string]string{
		"ranker.hcl":  strings.Replace(read(t, from+"ranker.hcl"), "http://127.0.0.1:9100", url, 1),
		"ranker.json": read(t, from+"ranker.json"),
	})
}

func TestTheProviderIsAnExample(t *testing.T) {
	got := run(t, "provider", quickFolder(t, "http://127.0.0.1:9100"))
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "go run ./examples/functions PATH")
}

func TestFunctionsNeedAnAddressToBeServed(t *testing.T) {
	dir := quickFolder(t, "http://127.0.0.1:9100")
	text := read(t, filepath.Join(dir, "ranker.hcl"))
	lines := strings.Split(text, "\n")
	unreachable := folder(t, map[string]string{
		"ranker.hcl":  strings.Join(append(lines[:4:4], lines[5:]...), "\n"),
		"ranker.json": `{"gpu":{"xi1":0.001,"xi2":0.002,"Mmax_gb":8}}`,
	})
	assert.Equal(t, ExitOK, run(t, "plan", unreachable).code)
	got := run(t, "apply", unreachable)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `provider "cloud" has no url, so function "ranker" can be planned and not served`)
}

// TestLoadOfAFunction loads all applications at once, over HTTP.
func TestLoadOfAFunction(t *testing.T) {
	var answers http.Handler = http.NotFoundHandler()
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
	defer cloud.Close()
	config, diags := hcl.Load(hcl.LoadOptions{}, quickFolder(t, cloud.URL))
	require.Empty(t, diags)
	problem := functions.Problem{Function: config.Document.Functions[0], Provider: config.Document.Providers[0]}
	host, err := provider.New(provider.Options{Problems: []functions.Problem{problem}, ColdStart: -1})
	require.NoError(t, err)
	defer host.Close()
	answers = host
	plan, err := functions.Solve(problem, functions.Options{})
	require.NoError(t, err)
	for i := range plan.Groups[0].Applications {
		plan.Groups[0].Applications[i].SLO *= 50 // a busy machine is no matter here
	}
	serves := gateway.New(gateway.Options{})
	defer serves.Close()
	require.NoError(t, serves.Install(t.Context(), placement.Deployment{Function: &functions.Deployment{
		Generation: 1, Function: problem.Function, Provider: problem.Provider, Plan: plan,
	}}))
	at := httptest.NewServer(httpapi.New(serves, httpapi.Options{}))
	defer at.Close()

	got := run(t, "load", "ranker", "--gateway", at.URL, "--duration", "1s", "--warmup", "0s", "--rate", "45", "--json")
	require.Equal(t, ExitOK, got.code, got.stderr)
	var out struct {
		Function     string
		Applications []struct {
			Pipeline string
			Offered  float64 `json:"offered_rate"`
			Requests int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	require.Len(t, out.Applications, 2)
	assert.Equal(t, "ranker/calm", out.Applications[1].Pipeline)
	assert.InDeltaSlice(t, []float64{15, 30}, []float64{out.Applications[0].Offered, out.Applications[1].Offered}, 1e-9)

	got = run(t, "load", "ranker/calm", "--gateway", at.URL, "--duration", "1s", "--warmup", "0s", "--rate", "20")
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "ranker/calm: ")
	input := filepath.Join(folder(t, map[string]string{"x.json": "[1, 2]"}), "x.json")
	got = run(t, "infer", "ranker/hasty", "--gateway", at.URL, "--input", "x="+input)
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "GB GPU")

	m := serves.Measures("ranker")
	status := control.Status{
		Kind: pipelines.KindFunction, Name: "ranker", Phase: workflows.Serving, Generation: 1, Serving: 1, Rate: 90, Policy: "exact",
		Plan: &scheduler.Plan{Function: &plan}, Measures: &m,
	}
	var text bytes.Buffer
	require.NoError(t, writeServices(&text, []control.Status{status}))
	assert.Regexp(t, `ranker +serving +1 +exact +90 +[0-9.]+ +1 +`, text.String())
	assert.Contains(t, text.String(), "of a cold start")
	text.Reset()
	require.NoError(t, writeServices(&text, nil))
	assert.Contains(t, text.String(), "Nothing runs")
}
