//go:build record

package workflows_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/harpagon/harpagon/activities"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/emulated"
	"github.com/harpagon/harpagon/executors/functions"
	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/sdk/local/embedded"
	"github.com/harpagon/harpagon/wire/attach"
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
	c, err := client.Dial(client.Options{HostPort: server.Address(), Namespace: embedded.Namespace})
	require.NoError(t, err)
	defer c.Close()

	devices := []placement.Device{{Host: "one", Name: "cpu/0", Hardware: "cpu"}, {Host: "one", Name: "cpu/1", Hardware: "cpu"}}
	workers := roles(t, c, devices)
	ctl := control.New(c, control.Options{Settings: workflows.Settings{SearchAttributes: true, ContinueAfter: 6}})
	_, err = ctl.Join(ctx, activities.HostInfo{Name: "one", Devices: devices})
	require.NoError(t, err)

	progress := func(s control.Status) { t.Logf("%s: generation %d, %d serves", s.Phase, s.Generation, s.Serving) }
	reply, err := ctl.Apply(ctx, workflows.ApplyRequest{Spec: spec(10)})
	require.NoError(t, err)
	_, err = ctl.WaitServing(ctx, "traffic", reply.Generation, progress)
	require.NoError(t, err)
	reply, err = ctl.Rescale(ctx, "traffic", workflows.RescaleRequest{Rate: 60})
	require.NoError(t, err)
	status, err := ctl.WaitServing(ctx, "traffic", reply.Generation, progress)
	require.NoError(t, err)
	t.Log("\n" + status.Describe())

	_, err = ctl.Rescale(ctx, "traffic", workflows.RescaleRequest{Rate: 1, Expect: 77})
	require.ErrorContains(t, err, "generation")
	tooMuch, err := ctl.Rescale(ctx, "traffic", workflows.RescaleRequest{Rate: 1e5})
	require.NoError(t, err)
	_, err = ctl.WaitServing(ctx, "traffic", tooMuch.Generation, progress)
	var failed *control.FailedError
	require.ErrorAs(t, err, &failed)
	t.Log(err)

	require.NoError(t, ctl.GatewayStarted(ctx, ""))
	_, err = ctl.Drain(ctx, "traffic", "maintenance")
	require.NoError(t, err)
	reply, err = ctl.Rescale(ctx, "traffic", workflows.RescaleRequest{Rate: 10})
	require.NoError(t, err)
	status, err = ctl.WaitServing(ctx, "traffic", reply.Generation, progress)
	require.NoError(t, err)
	t.Log("\n" + status.Describe())
	view, err := ctl.Fleet(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, view.Reserved["traffic"])
	require.NoError(t, ctl.Delete(ctx, "traffic", "the recording is over"))
	_, err = ctl.Status(ctx, "traffic")
	require.ErrorIs(t, err, control.ErrNotFound)
	workers[0].Stop() // the host leaves
	time.Sleep(3 * time.Second)
	save(ctx, t, c)
}

// roles starts the workers of one process: host, gateway, control.
func roles(t *testing.T, c client.Client, devices []placement.Device) []worker.Worker {
	gw := gateway.New(gateway.Options{})
	host := &executors.Host{
		Name: "one", Devices: devices, Engines: []executors.Engine{emulated.New(emulated.Options{}), functions.New(functions.Builtin())},
		Dial: func(context.Context, string) (attach.Stream, error) {
			a, b := attach.Pipe()
			go func() { _ = gw.Attach(a) }()
			return b, nil
		},
	}
	hostWorker := worker.New(c, activities.HostQueue("one"), activities.HostWorkerOptions(0))
	activities.RegisterHost(hostWorker, &activities.Host{Name: "one", Executors: host, Store: activities.ProfileStore{Dir: t.TempDir()}, Pulse: activities.ClientPulse(c)})
	gatewayWorker := worker.New(c, activities.GatewayQueue, activities.GatewayWorkerOptions())
	activities.RegisterGateway(gatewayWorker, gw)
	controlWorker := worker.New(c, activities.ControlQueue, worker.Options{})
	workflows.Register(controlWorker)
	activities.RegisterControl(controlWorker, &activities.Fleet{Client: c})
	all := []worker.Worker{hostWorker, gatewayWorker, controlWorker}
	for i, w := range all {
		require.NoError(t, w.Start())
		if i > 0 {
			t.Cleanup(w.Stop)
		}
	}
	return all
}

func spec(rate float64) workflows.Spec {
	points := func() (all []pipelines.Point) {
		for batch := 1; batch <= 8; batch *= 2 {
			all = append(all, pipelines.Point{Hardware: "cpu", Batch: batch, Concurrency: 1, Duration: time.Duration(8+2*batch) * time.Millisecond})
		}
		return all
	}
	return workflows.Spec{
		Pipeline: pipelines.Pipeline{
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

// perType is how many histories of one type are kept.
const perType = 4

func save(ctx context.Context, t *testing.T, c client.Client) {
	list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 200})
	require.NoError(t, err)
	count := map[string]int{}
	for _, e := range list.Executions {
		kind := e.Type.Name
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
