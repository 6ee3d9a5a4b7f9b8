//go:build !noserver

package local_test

import (
	"context"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/apart"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
)

// known starts Temporal as by default and keeps what was started.
func known(server **apart.Server) func(context.Context, system.TemporalOptions) (system.Temporal, error) {
	return func(ctx context.Context, o system.TemporalOptions) (system.Temporal, error) {
		s, err := local.Apart(ctx, o)
		if err == nil {
			*server = s.(*apart.Server)
		}
		return s, err
	}
}

// Temporal has a process of its own, which is started again where it was: what serves goes
// on serving meanwhile, and changes are carried out afterwards.
func TestTemporalThatIsKilledIsStartedAgain(t *testing.T) {
	testkit.Long(t)
	var temporal *apart.Server
	s, err := local.Start(t.Context(), local.Options{Files: []string{emulated}, StateDir: t.TempDir(), Environ: []string{}, Temporal: known(&temporal)})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	c, diags := hcl.Load(hcl.LoadOptions{}, emulated)
	require.False(t, diags.HasErrors(), diags)
	for _, rate := range []float64{150, 40} {
		pid := temporal.PID()
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		for temporal.PID() == pid {
			infer(t, s.Client())
		}
		more := c.Document
		more.Pipelines[0].Rate = rate
		ctl := system.Control(s.Temporal(), local.Options{})
		reply, err := ctl.Apply(t.Context(), workflows.ApplyRequest{Spec: scheduler.Specs(&more)[0]})
		require.NoError(t, err)
		_, err = ctl.WaitServing(t.Context(), "emulated", reply.Generation, nil)
		require.NoError(t, err)
		infer(t, s.Client())
	}
	answer, err := http.Get(s.UIURL)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
}
