//go:build !noserver

package local_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/secure/securetest"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

const addsHCL = `
hardware "cpu" { price = 0.04 }

pipeline "adds" {
  slo  = "4s"
  rate = 20
  input "x" {
    datatype = "FP32"
    shape    = [1]
  }
  module "add" {
    model   = "models/add.onnx"
    inputs  = { x = input.x }
    batches = [1, 2]
  }
  output "y" { value = module.add.y }
}
`

// adds writes a declaration whose network adds a number to its input.
func adds(t *testing.T, folder string, number float32) {
	b := onnx.NewBuilder("add", "x", 1)
	b.Gemm([]float32{1}, []float32{number}, 1, 1)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "models"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "models", "add.onnx"), b.Model("y").Encode(), 0o600)) // the same file, as cp does
	require.NoError(t, os.WriteFile(filepath.Join(folder, "adds.hcl"), []byte(addsHCL), 0o600))
}

// added is what the network adds, by one request.
func added(t *testing.T, c *sdk.Client, x float32) (float32, error) {
	r, err := c.Infer(t.Context(), "adds", sdk.Inputs{"x": sdk.Float32([]float32{x}, 1)})
	if err != nil {
		return 0, err
	}
	y, err := r.Float32s("y")
	require.NoError(t, err)
	return y[0] - x, nil
}

// pinnedIn is a folder's document, pinned.
func pinnedIn(t *testing.T, folder string, p content.Pinning) pipelines.Document {
	c, diags := hcl.Load(hcl.LoadOptions{}, folder)
	require.False(t, diags.HasErrors(), diags)
	require.NoError(t, p.Pin(t.Context(), &c.Document))
	return c.Document
}

func apply(t *testing.T, ctl *control.Control, doc pipelines.Document) control.Status {
	reply, err := ctl.Apply(t.Context(), workflows.ApplyRequest{Spec: scheduler.Specs(&doc)[0]})
	require.NoError(t, err)
	s, err := ctl.WaitServing(t.Context(), "adds", reply.Generation, nil)
	require.NoError(t, err)
	return s
}

// TestAModelReplacedInPlaceServesWhenItIsApplied kills what has loaded a model
// whose file has changed: a process that loads it again serves what was applied.
func TestAModelReplacedInPlaceServesWhenItIsApplied(t *testing.T) {
	folder, state := t.TempDir(), t.TempDir()
	adds(t, folder, 1)
	s, err := local.Start(t.Context(), local.Options{Files: []string{folder}, StateDir: state, Environ: []string{}, WithoutUI: true, Cores: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.Len(t, s.Services, 1)
	assert.Contains(t, s.Services[0].Describe(), "add.onnx  sha256:")
	adds(t, folder, 2)

	answers := map[float32]int{}
	for round := range 2 {
		for _, pid := range children(t) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		began := time.Now()
		for n := 0; n < 20; {
			d, err := added(t, s.Client(), float32(10*n))
			if err != nil {
				require.Less(t, time.Since(began), time.Minute, "the engine is started again")
				time.Sleep(50 * time.Millisecond)
				continue
			}
			answers[d]++
			n++
		}
		t.Logf("round %d: %v", round, answers)
	}
	require.Equal(t, map[float32]int{1: 40}, answers, "all answers are those of the network that was applied")

	ctl := system.Control(s.Temporal(), local.Options{})
	before := s.Services[0]
	after := apply(t, ctl, pinnedIn(t, folder, content.Pinning{Store: content.Folder(system.Folder(state).Models())}))
	require.Greater(t, after.Generation, before.Generation, "another content is another spec")
	require.NotEqual(t, before.Files, after.Files)
	d, err := added(t, s.Client(), 5)
	require.NoError(t, err)
	require.Equal(t, float32(2), d)
}

// TestModelsReachHostsThatNeverSawTheFolder has roles of their own, which speak TLS
// and show each other certificates: the declaration is applied from a folder that is gone
// when the worker fetches its models.
func TestModelsReachHostsThatNeverSawTheFolder(t *testing.T) {
	ctx := t.Context()
	server, err := local.Temporal(ctx, system.TemporalOptions{
		DBFile: filepath.Join(t.TempDir(), "temporal.db"), LogFile: filepath.Join(t.TempDir(), "log"), WithoutUI: true, SearchAttributes: roles.SearchAttributes(),
	})
	require.NoError(t, err)
	defer func() { _ = server.Stop() }()
	c, err := client.DialContext(ctx, client.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))})
	require.NoError(t, err)
	defer c.Close()
	ca := securetest.New(t, "ours")
	proof := func() secure.Credentials { return secure.Credentials{Identity: ca.Identity(t)} } // each role has its own
	served, err := roles.StartStore(roles.StoreOptions{Addr: "127.0.0.1:0", Dir: t.TempDir(), Credentials: proof()})
	require.NoError(t, err)
	defer served.Stop()
	store, err := content.OpenStore(served.URL(), proof())
	require.NoError(t, err)

	r, err := roles.StartControl(ctx, c, roles.ProvisionOptions{})
	require.NoError(t, err)
	defer r.Stop()
	g, err := roles.StartGateway(ctx, c, roles.GatewayOptions{HTTPAddr: "127.0.0.1:0", AttachAddr: "127.0.0.1:0", Credentials: proof()})
	require.NoError(t, err)
	defer g.Close()
	offer, err := devices.Local(devices.Config{Host: "far", Cores: 1})
	require.NoError(t, err)
	w, err := roles.StartWorker(ctx, c, roles.HostOptions{
		Name: "far", Devices: offer, Engines: system.Engines(system.EngineOptions{}), Progress: func(s string) { t.Log(s) },
		Content: &content.Cache{Dir: t.TempDir(), Stores: []content.Store{store}}, Credentials: proof(),
	})
	require.NoError(t, err)
	defer w.Stop()

	laptop := filepath.Join(t.TempDir(), "laptop")
	adds(t, laptop, 3)
	doc := pinnedIn(t, laptop, content.Pinning{Store: store})
	require.NoError(t, os.RemoveAll(laptop))
	ctl := system.Control(c, system.Options{Attach: g.Attach})
	status := apply(t, ctl, doc)
	require.Equal(t, doc.Pipelines[0].Modules[0].Content, status.Files[0].Files)
	over, err := sdk.Dialer{TLS: ca.Issue(t, t.TempDir(), time.Hour)}.Dial(ctx, g.HTTP)
	require.NoError(t, err)
	d, err := added(t, over, 5)
	require.NoError(t, err)
	require.Equal(t, float32(3), d)
	_, err = sdk.Dialer{TLS: secure.Files{CA: ca.Issue(t, t.TempDir(), time.Hour).CA}}.Dial(ctx, g.HTTP)
	require.ErrorContains(t, err, "requires a certificate of its CA")
	_, err = sdk.Dialer{TLS: securetest.New(t, "theirs").Issue(t, t.TempDir(), time.Hour)}.Dial(ctx, g.HTTP)
	require.ErrorContains(t, err, "--tls-ca")
	assert.Contains(t, status.Describe(), "add.onnx  sha256:")
}
