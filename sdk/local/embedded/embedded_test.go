//go:build !noserver

package embedded_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/harpagon/harpagon/sdk/local/embedded"
)

var phase = temporal.NewSearchAttributeKeyKeyword("TestPhase")

func double(_ context.Context, n int) (int, error) { return 2 * n, nil }

func doubling(ctx workflow.Context, n int) (out int, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	if err := workflow.UpsertTypedSearchAttributes(ctx, phase.ValueSet("doubling")); err != nil {
		return 0, err
	}
	err = workflow.ExecuteActivity(ctx, double, n).Get(ctx, &out)
	return out, err
}

func TestServerKeepsWorkflowsOverARestart(t *testing.T) {
	dir := t.TempDir()
	o := embedded.Options{
		DBFile: filepath.Join(dir, "temporal.db"), LogFile: filepath.Join(dir, "temporal.log"),
		SearchAttributes: map[string]enumspb.IndexedValueType{"TestPhase": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	}
	s, err := embedded.Start(t.Context(), o)
	require.NoError(t, err)
	require.NotEmpty(t, s.UIURL())
	assert.Contains(t, fetch(t, s.UIURL()), "<html")
	within(t, s, func(ctx context.Context, c client.Client) {
		defer work(t, c)()
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "one", TaskQueue: "q"}, doubling, 21)
		require.NoError(t, err)
		var got int
		require.NoError(t, run.Get(ctx, &got))
		assert.Equal(t, 42, got)
	})
	_, err = embedded.Start(t.Context(), embedded.Options{DBFile: filepath.Join(dir, "other.db"), FrontendAddr: s.Address()})
	assert.ErrorContains(t, err, "in use")
	require.NoError(t, s.Stop())

	s, err = embedded.Start(t.Context(), o)
	require.NoError(t, err)
	within(t, s, func(ctx context.Context, c client.Client) {
		var got int
		require.NoError(t, c.GetWorkflow(ctx, "one", "").Get(ctx, &got))
		assert.Equal(t, 42, got)
	})
	require.NoError(t, s.Stop())
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, err = embedded.Start(t.Context(), embedded.Options{DBFile: filepath.Join(t.TempDir(), "t.db"), UIAddr: l.Addr().String()})
	assert.ErrorContains(t, err, "Temporal UI")
	assert.ErrorContains(t, err, "in use")
}

func within(t *testing.T, s *embedded.Server, do func(context.Context, client.Client)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: s.Address()})
	require.NoError(t, err)
	defer c.Close()
	do(ctx, c)
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	require.Eventually(t, func() bool {
		r, err := http.Get(url)
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	}, time.Minute, 50*time.Millisecond)
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(body)
}

// work takes tasks of doubling until what it returns is called.
func work(t *testing.T, c client.Client) (stop func()) {
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflow(doubling)
	w.RegisterActivity(double)
	require.NoError(t, w.Start())
	return w.Stop
}
