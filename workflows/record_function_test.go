//go:build record

package workflows_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors/provider"
	requests "github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/sdk/local/embedded"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// TestRecordFunction is TestRecord for the workflow of functions.
func TestRecordFunction(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	dir := t.TempDir()
	attributes := map[string]enumspb.IndexedValueType{}
	for _, a := range workflows.Attributes() {
		attributes[a.Name] = a.Type
	}
	server, err := embedded.Start(ctx, embedded.Options{DBFile: filepath.Join(dir, "t.db"), WithoutUI: true, LogFile: filepath.Join(dir, "t.log"), SearchAttributes: attributes})
	require.NoError(t, err)
	defer server.Stop()
	c, err := client.DialContext(ctx, client.Options{HostPort: server.Address()})
	require.NoError(t, err)
	defer c.Close()

	var answers http.Handler
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
	defer s.Close()
	spec := functionSpec(s.URL, 10)
	host, err := provider.New(provider.Options{Problems: []functions.Problem{{Function: spec.Function, Provider: spec.Provider}}, ColdStart: -1})
	require.NoError(t, err)
	defer host.Close()
	answers = host

	serves := requests.New(requests.Options{})
	defer serves.Close()
	gateway := worker.New(c, activities.GatewayQueue, activities.GatewayWorkerOptions())
	activities.RegisterFunctions(gateway, serves)
	runs := worker.New(c, activities.ControlQueue, worker.Options{})
	workflows.Register(runs)
	activities.RegisterControl(runs, &activities.Fleet{Client: c})
	for _, w := range []worker.Worker{gateway, runs} {
		require.NoError(t, w.Start())
		defer w.Stop()
	}
	live(ctx, t, control.New(c, control.Options{Settings: workflows.Settings{SearchAttributes: true, ContinueAfter: 6, RetryAfter: time.Second, Drift: autoscale.DriftOptions{Hold: 3 * time.Second, Cooldown: time.Second}}}), s.URL)
	save(ctx, t, c)
}

// live leads a function through everything that can happen to it.
func live(ctx context.Context, t *testing.T, ctl *control.Control, at string) {
	wait := func(reply workflows.ChangeReply, err error) {
		require.NoError(t, err)
		status, err := ctl.WaitFunction(ctx, "ranker", reply.Generation, nil)
		require.NoError(t, err)
		t.Log("\n" + status.Describe())
	}
	// A provider that is not there: it is tried again until another spec comes.
	reply, err := ctl.ApplyFunction(ctx, workflows.FunctionApply{Spec: functionSpec("http://127.0.0.1:1", 10)})
	require.NoError(t, err)
	_, err = ctl.WaitFunction(ctx, "ranker", reply.Generation, nil)
	var failed *control.FailedError
	require.ErrorAs(t, err, &failed)
	require.ErrorContains(t, err, `function "ranker"`)
	time.Sleep(2 * time.Second)
	wait(ctl.ApplyFunction(ctx, workflows.FunctionApply{Spec: functionSpec(at, 10), Reason: "with a provider"}))
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		now := time.Now()
		require.NoError(t, ctl.SendFunctionMeasures(ctx, functions.Measures{
			Function: "ranker", Generation: 2, From: begin, To: now,
			Applications: []functions.ApplicationMeasures{{Name: "a", Offered: 40}, {Name: "b", Offered: 20}},
		}))
		if status, err := ctl.FunctionStatus(ctx, "ranker"); err == nil && status.Serving == 3 {
			break
		}
		require.NoError(t, ctx.Err())
	}
	require.NoError(t, ctl.GatewayStarted(ctx, ""))
	time.Sleep(time.Second)
	names, err := ctl.Functions(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"ranker"}, names)
	_, err = ctl.DrainFunction(ctx, "ranker", "the night")
	require.NoError(t, err)
	wait(ctl.ApplyFunction(ctx, workflows.FunctionApply{Spec: functionSpec(at, 20)}))
	require.NoError(t, ctl.DeleteFunction(ctx, "ranker", "the recording is over"))
	_, err = ctl.FunctionStatus(ctx, "ranker")
	require.ErrorIs(t, err, control.ErrNotFound)
}

func functionSpec(at string, rate float64) workflows.FunctionSpec {
	curve := func(a, g float64) pipelines.Curve { return pipelines.Curve{Alpha: a, Beta: 1, Gamma: g} }
	return workflows.FunctionSpec{
		Provider: pipelines.Provider{
			Name: "cloud", VCPUSecond: 1e-5, VCPU: pipelines.Grid{Min: 1, Max: 4, Step: 1}, URL: at + "/v2/models/{function}-{platform}-{size}",
		},
		Function: pipelines.Function{
			Name: "ranker", Provider: "cloud",
			Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: curve(0.1, 0.02), Max: curve(0.2, 0.03)}, {Batch: 4, Avg: curve(0.2, 0.03), Max: curve(0.3, 0.04)},
			}},
			Applications: []pipelines.Application{{Name: "a", SLO: 200 * time.Millisecond, Rate: rate}, {Name: "b", SLO: time.Second, Rate: 2 * rate}},
		},
	}
}
