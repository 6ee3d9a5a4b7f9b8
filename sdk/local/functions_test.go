//go:build !noserver

package local_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/load"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire"
)

// A model that takes 2 ms a request on 2 of 8 GB, and two applications.
const ranker = `provider "cloud" {
  gpu_gb_second = 0.000015
  invocation    = 0.00000013
  billing       = "100ms"
  gpu_memory    = { min = 1, max = 8, step = 1 }
  gpu_slice     = "2ms"
  url           = "URL/v2/models/{function}-{platform}-{size}"
}

function "ranker" {
  provider = provider.cloud
  profile  = "ranker.json"

  input "x" {
    datatype = "FP32"
    shape    = [2]
  }

  application "hasty" {
    slo  = "300ms"
    rate = 30
  }

  application "calm" {
    slo  = "600ms"
    rate = 60
  }
}
`

// TestFunctionsAreServed applies a function in a system of its own, loads both
// applications, compares the bill with the plan, and restarts the system.
func TestFunctionsAreServed(t *testing.T) {
	var answers http.Handler = http.NotFoundHandler()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
	defer s.Close()
	files := t.TempDir()
	declare := func(url string) {
		require.NoError(t, os.WriteFile(filepath.Join(files, "ranker.hcl"), []byte(strings.Replace(ranker, "URL", url, 1)), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(files, "ranker.json"), []byte(`{"gpu":{"xi1":0.001,"xi2":0.002,"Mmax_gb":8}}`), 0o600))
	o := local.Options{Files: []string{files}, StateDir: t.TempDir(), Environ: []string{}, Progress: func(s string) { t.Log(s) }}

	declare("http://127.0.0.1:1")
	_, err := local.Start(t.Context(), o)
	require.ErrorContains(t, err, `function "ranker" cannot be reached`)
	assert.ErrorContains(t, err, "examples/functions stands in for one", "the error states what to do")

	declare(s.URL)
	problem := declared(t, files)
	host, err := provider.New(provider.Options{Problems: []functions.Problem{problem}, ColdStart: -1})
	require.NoError(t, err)
	defer host.Close()
	answers = host
	running, err := local.Start(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, running.Services, 1)
	plan, serving := running.Services[0].Plan.Function, running.Services[0].Serving
	t.Log("\n" + running.Services[0].Describe())

	client, err := sdk.Dial(t.Context(), running.GatewayURL)
	require.NoError(t, err)
	names, err := client.Pipelines(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"ranker/calm", "ranker/hasty"}, names)
	m, err := client.Metadata(t.Context(), "ranker")
	require.NoError(t, err)
	require.Len(t, m.Applications, 2)

	var wg sync.WaitGroup
	for i, a := range m.Applications {
		wg.Go(func() {
			r, err := load.Run(t.Context(), load.Options{
				Pipeline: "ranker/" + a.Name, SLO: a.SLO, Rate: a.Rate, Arrivals: arrivals.Process{Kind: pipelines.ArrivalsPoisson}, Duration: 5 * time.Second, Seed: uint64(i + 1),
			}, func(ctx context.Context, _ int) (*wire.InferResponse, error) {
				r, err := client.Infer(ctx, "ranker/"+a.Name, sdk.Inputs{"x": wire.FromFloat32([]float32{1, 2}, 2)})
				if err != nil {
					return nil, err
				}
				return r.Response(), nil
			})
			if assert.NoError(t, err) {
				t.Log("\n" + r.Describe())
				assert.Equal(t, r.Requests, r.Completed+r.Late+r.Errors["deadline"], "every request ended, none failed")
			}
		})
	}
	wg.Wait()
	bill := host.Bill()
	t.Logf("%+v; planned %.3g", bill, plan.CostPerRequest)
	assert.Greater(t, bill.CostPerRequest, 0.9*plan.CostPerRequest)
	assert.Less(t, bill.CostPerRequest, 3*plan.CostPerRequest)

	require.NoError(t, running.Close())
	o.Files = nil
	running, err = local.Start(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, running.Services, 1)
	assert.Equal(t, serving, running.Services[0].Serving, "the plan of before")
	_, err = running.Client().Infer(t.Context(), "ranker/calm", sdk.Inputs{"x": wire.FromFloat32([]float32{1, 2}, 2)})
	require.NoError(t, err)
	kind, err := system.Control(running.Temporal(), o).Delete(t.Context(), "ranker", "the test is over")
	require.NoError(t, err)
	assert.Equal(t, pipelines.KindFunction, kind)
	_, err = running.Client().Infer(t.Context(), "ranker/calm", sdk.Inputs{"x": wire.FromFloat32([]float32{1, 2}, 2)})
	require.ErrorIs(t, err, sdk.ErrNotFound)
	require.NoError(t, running.Close())
}

func declared(t *testing.T, files string) functions.Problem {
	doc, err := system.Load(hcl.LoadOptions{}, nil, files)
	require.NoError(t, err)
	return functions.Problem{Function: doc.Functions[0], Provider: doc.Providers[0]}
}
