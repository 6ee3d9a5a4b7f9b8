//go:build !noserver

package local_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
)

const emulated = "../../examples/emulated"

func TestMain(m *testing.M) {
	local.ChildMain()
	os.Exit(m.Run())
}

func TestUpServesAndGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	o := local.Options{Files: []string{emulated}, StateDir: dir, Environ: []string{}, Progress: func(s string) { t.Log(s) }}
	began := time.Now()
	s, err := local.Start(t.Context(), o)
	require.NoError(t, err)
	t.Logf("ready after %v", time.Since(began))
	assert.Equal(t, []string{"emulated"}, s.Pipelines)
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
