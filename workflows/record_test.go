//go:build record

package workflows_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/harpagon/harpagon/examples/functions/provider"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/scheduler/autoscale"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/sdk/local/embedded"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// TestRecord runs the workflows against a real Temporal server, with a real
// gateway and emulated engines, and writes their histories to testdata, where
// the replay test reads them. Run it when the shape of a workflow changes in a
// release, and keep the old files:
//
//	go test -tags record -run TestRecord ./workflows -count 1
func TestRecord(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	dir := t.TempDir()
	server, err := embedded.Start(ctx, embedded.Options{
		DBFile: filepath.Join(dir, "t.db"), WithoutUI: true, LogFile: filepath.Join(dir, "t.log"), SearchAttributes: roles.SearchAttributes(),
	})
	require.NoError(t, err)
	defer server.Stop()
	c, err := client.DialContext(ctx, client.Options{HostPort: server.Address(), Namespace: embedded.Namespace})
	require.NoError(t, err)
	defer c.Close()

	controls, err := roles.StartControl(ctx, c, roles.ProvisionOptions{})
	require.NoError(t, err)
	defer controls.Stop()
	gateway, err := roles.StartGateway(ctx, c, roles.GatewayOptions{})
	require.NoError(t, err)
	defer gateway.Close()
	devices := []placement.Device{
		{Host: "one", Name: "cpu/0", Hardware: "cpu"}, {Host: "one", Name: "cpu/1", Hardware: "cpu"}, {Host: "one", Name: "gpu/0", Hardware: "gpu"},
	}
	host, err := roles.StartWorker(ctx, c, roles.HostOptions{
		Name: "one", Devices: devices, Dial: gateway.Pipe, ProfileDir: dir,
		Engines: []executors.Engine{emulated.New(emulated.Options{}), steps.New(steps.Builtin())},
	})
	require.NoError(t, err)
	r := recorder{T: t, gateway: gateway, Control: control.New(c, control.Options{Settings: workflows.Settings{
		SearchAttributes: true, ContinueAfter: 6, RetryAfter: time.Second,
		Drift: autoscale.DriftOptions{Hold: 3 * time.Second, Cooldown: time.Second},
		Pace:  autoscale.PaceOptions{Hold: 3 * time.Second, Cooldown: time.Second},
		Mix:   autoscale.MixOptions{Hold: 3 * time.Second, Cooldown: time.Second},
	}})}
	r.pipeline(ctx)
	r.pool(ctx)
	r.function(ctx)
	host.Stop() // it leaves the fleet
	time.Sleep(3 * time.Second)
	save(ctx, t, c)
}

// recorder leads services through everything that can happen to them.
type recorder struct {
	*testing.T
	*control.Control
	gateway *roles.Gateway
}

// rejoin joins the gateway again, so that what serves is installed there again.
func (r recorder) rejoin(ctx context.Context) {
	_, err := r.Enter(ctx, r.gateway.Member)
	require.NoError(r, err)
}

// serves waits until what was accepted serves.
func (r recorder) serves(ctx context.Context, name string) func(workflows.ChangeReply, error) control.Status {
	return func(reply workflows.ChangeReply, err error) control.Status {
		require.NoError(r, err)
		status, err := r.WaitServing(ctx, name, reply.Generation, nil)
		require.NoError(r, err)
		r.Log("\n" + status.Describe())
		return status
	}
}

// fails waits until what was accepted has failed.
func (r recorder) fails(ctx context.Context, name string) func(workflows.ChangeReply, error) {
	return func(reply workflows.ChangeReply, err error) {
		require.NoError(r, err)
		_, err = r.WaitServing(ctx, name, reply.Generation, nil)
		var failed *control.FailedError
		require.ErrorAs(r, err, &failed)
		r.Log(err)
	}
}

// measure reports what a gateway would see, until a later generation than that
// serves.
func (r recorder) measure(ctx context.Context, name string, beyond int, seen func(from, to time.Time, generation int) autoscale.Measures) {
	for from := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		status, err := r.Status(ctx, name)
		require.NoError(r, err)
		if status.Serving > beyond {
			r.Log("\n" + status.Describe())
			return
		}
		require.NoError(r, r.SendMeasures(ctx, seen(from, time.Now(), status.Serving)))
	}
}

func (r recorder) deleted(ctx context.Context, name string) {
	_, err := r.Delete(ctx, name, "the recording is over")
	require.NoError(r, err)
	_, err = r.Status(ctx, name)
	require.ErrorIs(r, err, control.ErrNotFound)
}

func (r recorder) pipeline(ctx context.Context) {
	const name = "traffic"
	r.serves(ctx, name)(r.Apply(ctx, workflows.ApplyRequest{Spec: spec(10)}))
	status := r.serves(ctx, name)(r.Rescale(ctx, name, workflows.RescaleRequest{Rate: 60}))
	_, err := r.Rescale(ctx, name, workflows.RescaleRequest{Rate: 1, Expect: 77})
	require.ErrorContains(r, err, "generation")
	r.fails(ctx, name)(r.Rescale(ctx, name, workflows.RescaleRequest{Rate: 1e5}))
	status = r.serves(ctx, name)(r.Rescale(ctx, name, workflows.RescaleRequest{Rate: 20}))
	r.measure(ctx, name, status.Serving, func(from, to time.Time, _ int) autoscale.Measures {
		slow := autoscale.BatchDuration{Hardware: "cpu", Size: 1, Batches: 60, P50: 3 * time.Millisecond, P95: 3 * time.Millisecond}
		return autoscale.Measures{Pipeline: name, From: from, To: to, Offered: 20, Arrived: 200,
			Modules: []autoscale.ModuleMeasures{{Name: "label", Durations: []autoscale.BatchDuration{slow}}}}
	})
	healed, err := r.Status(ctx, name)
	require.NoError(r, err)
	require.NotEmpty(r, healed.Healed)
	r.rejoin(ctx)
	_, err = r.Drain(ctx, name, "maintenance")
	require.NoError(r, err)
	r.serves(ctx, name)(r.Rescale(ctx, name, workflows.RescaleRequest{Rate: 10}))
	r.serves(ctx, name)(r.Profile(ctx, name, "it is calm now"))
	view, err := r.Fleet(ctx)
	require.NoError(r, err)
	require.NotEmpty(r, view.Reserved["pipeline/traffic"])
	r.deleted(ctx, name)
}

func (r recorder) pool(ctx context.Context) {
	const name = "ranking"
	p := pipelines.Pool{
		Name: name, SLO: 100 * time.Millisecond, Budget: 1.5, Base: "gpu", Plan: pipelines.Planning{Policy: "kairos"},
		Sizes: pipelines.Mix{{Size: 5, Weight: 9}, {Size: 40, Weight: 1}},
	}
	for _, size := range []int{1, 50} {
		p.Profile.Points = append(p.Profile.Points,
			pipelines.Point{Hardware: "gpu", Batch: size, Concurrency: 1, Duration: time.Duration(10+size) * time.Millisecond},
			pipelines.Point{Hardware: "cpu", Batch: size, Concurrency: 1, Duration: time.Duration(5*size) * time.Millisecond})
	}
	hardware := []pipelines.Hardware{{Name: "gpu", Price: 1}, {Name: "cpu", Price: 0.2}}
	function := functionSpec("http://127.0.0.1:1", 10)
	function.Function.Name = name
	status := r.serves(ctx, name)(r.Apply(ctx, workflows.ApplyRequest{Spec: scheduler.Spec{Pool: &p, Hardware: hardware}}))
	_, err := r.Apply(ctx, workflows.ApplyRequest{Spec: function})
	require.ErrorContains(r, err, "has the name of a pool")
	r.measure(ctx, name, status.Serving, func(from, to time.Time, _ int) autoscale.Measures {
		sizes := []autoscale.QueryCount{{Size: 5, Queries: 100}, {Size: 40, Queries: 900}}
		return autoscale.Measures{Pipeline: name, Kind: pipelines.KindPool, From: from, To: to, Offered: 100, Arrived: 1000,
			Modules: []autoscale.ModuleMeasures{{Name: pipelines.PoolModule, Queries: sizes}}}
	})
	p.Budget = 1
	r.serves(ctx, name)(r.Apply(ctx, workflows.ApplyRequest{Spec: scheduler.Spec{Pool: &p, Hardware: hardware}}))
	r.deleted(ctx, name)
}

func (r recorder) function(ctx context.Context) {
	const name = "ranker"
	var answers http.Handler
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { answers.ServeHTTP(w, q) }))
	defer at.Close()
	spec := functionSpec(at.URL, 10)
	cloud, err := provider.New(provider.Options{Problems: []functions.Problem{{Function: *spec.Function, Provider: *spec.Provider}}, ColdStart: -1})
	require.NoError(r, err)
	defer cloud.Close()
	answers = cloud
	// A provider that is not there: it is tried again until another spec comes.
	r.fails(ctx, name)(r.Apply(ctx, workflows.ApplyRequest{Spec: functionSpec("http://127.0.0.1:1", 10)}))
	time.Sleep(2 * time.Second)
	status := r.serves(ctx, name)(r.Apply(ctx, workflows.ApplyRequest{Spec: spec, Reason: "with a provider"}))
	r.measure(ctx, name, status.Serving, func(from, to time.Time, generation int) autoscale.Measures {
		return autoscale.Measures{Pipeline: name, Kind: pipelines.KindFunction, Generation: generation, From: from, To: to, Offered: 60, Function: &functions.Measures{
			Function: name, Generation: generation, From: from, To: to,
			Applications: []functions.ApplicationMeasures{{Name: "a", Offered: 40}, {Name: "b", Offered: 20}},
		}}
	})
	r.rejoin(ctx)
	time.Sleep(time.Second)
	names, err := r.List(ctx)
	require.NoError(r, err)
	require.Equal(r, []string{name}, names)
	_, err = r.Drain(ctx, name, "the night")
	require.NoError(r, err)
	r.serves(ctx, name)(r.Apply(ctx, workflows.ApplyRequest{Spec: functionSpec(at.URL, 20)}))
	r.deleted(ctx, name)
}

func spec(rate float64) scheduler.Spec {
	points := func() (all []pipelines.Point) {
		for batch := 1; batch <= 8; batch *= 2 {
			all = append(all, pipelines.Point{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: time.Duration(8+2*batch) * time.Millisecond})
		}
		return all
	}
	return scheduler.Spec{
		Pipeline: &pipelines.Pipeline{
			Name: "traffic", SLO: 300 * time.Millisecond, Rate: rate,
			Inputs: []pipelines.Port{{Name: "frame", Datatype: "FP32", Shape: []int64{4}}},
			Modules: []pipelines.Module{
				{Name: "detect", Fanout: 1, Profile: pipelines.Profile{Points: points()}, Inputs: []pipelines.Binding{{Name: "image", From: pipelines.Ref{Port: "frame"}}}},
				{Name: "label", Fanout: 1, Function: "identity", Batches: []int{1, 2, 4}, Inputs: []pipelines.Binding{{Name: "input", From: pipelines.Ref{Module: "detect", Port: "out"}}}},
			},
			Outputs: []pipelines.Output{{Name: "label", From: pipelines.Ref{Module: "label", Port: "output"}}},
		},
		Hardware: []pipelines.Hardware{{Name: "cpu", Price: 0.1}},
	}
}

func functionSpec(at string, rate float64) scheduler.Spec {
	curve := func(a, g float64) pipelines.Curve { return pipelines.Curve{Alpha: a, Beta: 1, Gamma: g} }
	return scheduler.Spec{
		Provider: &pipelines.Provider{
			Name: "cloud", VCPUSecond: 1e-5, VCPU: pipelines.Grid{Min: 1, Max: 4, Step: 1}, URL: at + "/v2/models/{function}-{platform}-{size}",
		},
		Function: &pipelines.Function{
			Name: "ranker", Provider: "cloud",
			Profile: pipelines.FunctionProfile{CPU: []pipelines.CPUCurves{
				{Batch: 1, Avg: curve(0.1, 0.02), Max: curve(0.2, 0.03)}, {Batch: 4, Avg: curve(0.2, 0.03), Max: curve(0.3, 0.04)},
			}},
			Applications: []pipelines.Application{{Name: "a", SLO: 200 * time.Millisecond, Rate: rate}, {Name: "b", SLO: time.Second, Rate: 2 * rate}},
		},
	}
}

// perType is how many histories of one type, and kind of service, are kept, the
// latest ones.
const perType = 6

func save(ctx context.Context, t *testing.T, c client.Client) {
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 200})
	require.NoError(t, err)
	count := map[string]int{}
	for _, e := range list.Executions {
		kind := e.Type.Name
		switch parts := strings.Split(e.Execution.WorkflowId, "/"); kind {
		case workflows.TypeService: // of every kind
			kind += "-" + parts[0]
		case workflows.TypeReschedule: // of every service
			kind += "-" + parts[1]
		}
		if count[kind] == perType {
			continue
		}
		count[kind]++
		var h historypb.History
		events := c.GetWorkflowHistory(ctx, e.Execution.WorkflowId, e.Execution.RunId, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			require.NoError(t, err)
			h.Events = append(h.Events, event)
		}
		b, err := protojson.MarshalOptions{}.Marshal(&h)
		require.NoError(t, err)
		path := filepath.Join("testdata", "histories", fmt.Sprintf("%s-%d.json", kind, count[kind]))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, append(b, '\n'), 0o644))
		t.Logf("%s: %d events, %s", path, len(h.Events), e.Status)
	}
}
