//go:build !noserver

package local_test

import (
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/harpagon/harpagon/executors/content"
	"github.com/harpagon/harpagon/executors/devices"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
)

// TestIdentitiesSurviveGateways sends scenes of several cameras through the example's tracker by two gateways, and ends
// the one and the other meanwhile: the identities are those of uninterrupted trackers, of
// the frames that were answered.
func TestIdentitiesSurviveGateways(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	ctx := t.Context()
	server, err := local.Temporal(ctx, system.TemporalOptions{
		DBFile: filepath.Join(t.TempDir(), "temporal.db"), LogFile: filepath.Join(t.TempDir(), "log"), WithoutUI: true, SearchAttributes: roles.SearchAttributes(),
	})
	require.NoError(t, err)
	defer func() { _ = server.Stop() }()
	c, err := client.DialContext(ctx, client.Options{HostPort: server.Address(), Logger: sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))})
	require.NoError(t, err)
	defer c.Close()
	r, err := roles.StartControl(ctx, c, roles.ProvisionOptions{})
	require.NoError(t, err)
	defer r.Stop()
	places, err := roles.StartDispatcher(ctx, roles.DispatcherOptions{Addr: "127.0.0.1:0", Name: "d"})
	require.NoError(t, err)
	defer places.Stop()
	var gateways [2]*roles.Gateway
	start := func(i int, at string) {
		var err error
		require.Eventually(t, func() bool { // the port of one that was ended is free soon
			gateways[i], err = roles.StartGateway(ctx, c, roles.GatewayOptions{Name: fmt.Sprint("gateway", i), HTTPAddr: at, AttachAddr: "127.0.0.1:0", Dispatchers: []string{places.Addr}})
			return err == nil
		}, time.Minute, 100*time.Millisecond)
	}
	start(0, "127.0.0.1:0")
	start(1, "127.0.0.1:0")
	addresses := []string{gateways[0].HTTP, gateways[1].HTTP}
	defer func() { gateways[0].Close(); gateways[1].Close() }()
	offer, err := devices.Local(devices.Config{Host: "h", Cores: 1})
	require.NoError(t, err)
	w, err := roles.StartWorker(ctx, c, roles.HostOptions{
		Name: "h", Devices: offer, Engines: system.Engines(system.EngineOptions{}), Content: &content.Cache{Dir: t.TempDir()}, ProfileDir: t.TempDir(),
	})
	require.NoError(t, err)
	defer w.Stop()
	doc, diags := hcl.Load(hcl.LoadOptions{}, "../../examples/tracks")
	require.False(t, diags.HasErrors(), diags)
	require.NoError(t, (content.Pinning{}).Pin(ctx, &doc.Document))
	ctl := system.Control(c, system.Options{Attach: gateways[0].Attach})
	reply, err := ctl.Apply(ctx, workflows.ApplyRequest{Spec: scheduler.Specs(&doc.Document)[0]})
	require.NoError(t, err)
	_, err = ctl.WaitServing(ctx, "tracks", reply.Generation, nil)
	require.NoError(t, err)
	over, err := sdk.Dial(ctx, addresses...)
	require.NoError(t, err)
	defer func() { require.NoError(t, over.Close()) }()

	const cameras, kills = 8, 4
	var under sync.WaitGroup
	var answered [cameras]atomic.Int64
	ended := make(chan struct{})
	for c := range cameras {
		stream := over.Stream(ctx, "tracks", fmt.Sprint("camera ", c))
		under.Go(func() { sendScenes(t, stream, c, ended) })
		under.Go(func() { receiveIdentities(t, stream, c, &answered[c]) })
	}
	go func() { // as long as it takes
		defer close(ended)
		for kill := range kills + 1 {
			var before [cameras]int64
			for c := range before {
				before[c] = answered[c].Load()
			}
			assert.Eventually(t, func() bool {
				for c := range before {
					if answered[c].Load() < before[c]+8 {
						return false
					}
				}
				return true
			}, 2*time.Minute, 10*time.Millisecond, "after %d kills", kill)
			if kill < kills {
				i := kill % 2
				gateways[i].Close()
				start(i, addresses[i])
			}
		}
	}()
	under.Wait()
}
