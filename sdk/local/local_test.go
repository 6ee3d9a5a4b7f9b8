//go:build !noserver

package local_test

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/roles"
	"github.com/harpagon/harpagon/sdk/local/system"
)

const emulated = "../../examples/emulated"

// victim makes the test program a system on the folder that it names, which
// waits to be killed.
const victim = "HARPAGON_TEST_VICTIM"

func TestMain(m *testing.M) {
	local.ChildMain()
	if dir := os.Getenv(victim); dir != "" {
		files := cmp.Or(os.Getenv(overreach), emulated)
		s, err := local.Start(context.Background(), local.Options{Files: []string{files}, StateDir: dir, Environ: []string{}})
		if err == nil && files != emulated {
			err = refuse(context.Background(), s, files)
		}
		fmt.Println("started", err)
		select {}
	}
	os.Exit(m.Run())
}

func TestUpServesAndGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	o := local.Options{Files: []string{emulated}, StateDir: dir, Environ: []string{}, Progress: func(s string) { t.Log(s) }}
	began := time.Now()
	s, err := local.Start(t.Context(), o)
	require.NoError(t, err)
	t.Logf("ready after %v", time.Since(began))
	require.Len(t, s.Services, 1)
	assert.Equal(t, "emulated", s.Services[0].Name)
	infer(t, s.Client())

	over, err := sdk.Dial(t.Context(), s.GatewayURL)
	require.NoError(t, err)
	infer(t, over)

	_, err = local.Start(t.Context(), o)
	assert.ErrorContains(t, err, "in use by process")
	e, err := system.Folder(dir).Endpoints()
	require.NoError(t, err)
	assert.Equal(t, s.GatewayURL, e.Gateway)
	began = time.Now()
	require.NoError(t, s.Close())
	t.Logf("closed after %v", time.Since(began))
	_, err = system.Folder(dir).Endpoints()
	assert.ErrorIs(t, err, system.ErrNotRunning)

	began = time.Now()
	s, err = local.Start(t.Context(), o)
	require.NoError(t, err)
	t.Logf("ready again after %v", time.Since(began))
	infer(t, s.Client())
	require.NoError(t, s.Close())
}

// TestUpOfADeclarationMadeInGo serves a pipeline that is in no file, on hardware
// that a file declares.
func TestUpOfADeclarationMadeInGo(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hardware.hcl")
	require.NoError(t, os.WriteFile(file, []byte("hardware \"v100\" { price = 3 }\n"), 0o600))
	p, err := build.New("own").SLO(time.Second).Rate(5).Input("frame", "FP32", 4).
		Module(build.Profiled("m", pipelines.Point{Hardware: "v100", Batch: 1, Concurrency: 1, Duration: 5 * time.Millisecond}).In("x", build.FromInput("frame"))).
		Output("y", build.From("m", "y")).Build()
	require.NoError(t, err)
	doc := pipelines.Document{Pipelines: []pipelines.Pipeline{p}}
	o := local.Options{Document: &doc, Files: []string{file}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true}
	s, err := local.Start(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, s.Services, 1)
	assert.Equal(t, "own", s.Services[0].Name)
	_, err = s.Client().Infer(t.Context(), "own", sdk.Inputs{"frame": sdk.Float32(make([]float32, 4), 4)})
	require.NoError(t, err)
	require.NoError(t, s.Close())

	o.Files = nil
	_, err = local.Start(t.Context(), o)
	require.ErrorContains(t, err, "Declare what may run the modules")
	var wrong *local.DeclarationError
	require.ErrorAs(t, err, &wrong)
}

func TestGoesOnAfterAKill(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), victim+"="+dir)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started <nil>\n", line)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait() // killed

	s, err := local.Start(t.Context(), local.Options{StateDir: dir, Environ: []string{}})
	require.NoError(t, err)
	require.Len(t, s.Services, 1)
	assert.Equal(t, "emulated", s.Services[0].Name)
	assert.Equal(t, 1, s.Services[0].Serving, "the plan of before")
	infer(t, s.Client())
	require.NoError(t, s.Close())
}

// A service that has found out that its host is gone, and has looked for another in vain,
// goes on when the host comes back: its failure of before is not that of the start.
func TestGoesOnAfterItsHostWasLost(t *testing.T) {
	dir := t.TempDir()
	o := local.Options{Files: []string{emulated}, StateDir: dir, Environ: []string{}, WithoutUI: true}
	s, err := local.Start(t.Context(), o)
	require.NoError(t, err)
	require.NoError(t, s.Close())

	server, err := local.Apart(t.Context(), system.TemporalOptions{DBFile: filepath.Join(dir, "temporal.db"), WithoutUI: true, SearchAttributes: roles.SearchAttributes()})
	require.NoError(t, err)
	c, err := client.Dial(client.Options{HostPort: server.Address()})
	require.NoError(t, err)
	alone, err := roles.StartControl(t.Context(), c, roles.ProvisionOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		status, err := system.Control(c, o).Status(t.Context(), "emulated")
		return err == nil && status.Failure != nil
	}, 2*time.Minute, 100*time.Millisecond)
	alone.Stop() // whatever the service is about
	c.Close()
	require.NoError(t, server.Stop())

	for range 2 {
		s, err = local.Start(t.Context(), o)
		require.NoError(t, err)
		infer(t, s.Client())
		require.NoError(t, s.Close())
	}
}

func infer(t *testing.T, c *sdk.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := c.Infer(ctx, "emulated", sdk.Inputs{"frame": sdk.Float32(make([]float32, 3*96*96), 3, 96, 96)})
	require.NoError(t, err)
	assert.NotEmpty(t, r.Stages())
}

func TestStateFolderOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/version", []byte("99\n"), 0o600))
	_, err := local.Start(t.Context(), local.Options{Files: []string{emulated}, StateDir: dir, Environ: []string{}})
	assert.ErrorContains(t, err, `version "99"`)
}
