//go:build !noserver

package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/sdk/local/system"
	"github.com/harpagon/harpagon/workflows"
	"github.com/harpagon/harpagon/workflows/control"
)

// TestUpgradeOfAStateFolder starts on folders that earlier editions have left behind: a
// pipeline that was changed from 40 requests a second to 200, back, and then to more than
// there is room for, a pool whose budget was changed, and a cluster. All of that is there,
// serves, is changed, and goes back to what the edition before has served.
//
// A folder is what harpagon up leaves when it is stopped (temporal.db, without the log that
// SQLite keeps beside it, version, devices.json), put into testdata with each release.
func TestUpgradeOfAStateFolder(t *testing.T) {
	folders, err := filepath.Glob("testdata/state-*.tar.gz")
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		t.Run(filepath.Base(folder), func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, 0o700))
			out, err := exec.Command("tar", "-xzf", folder, "-C", dir).CombinedOutput()
			require.NoError(t, err, "%s", out)
			s, err := local.Start(t.Context(), local.Options{StateDir: dir, Environ: []string{}, WithoutUI: true, Progress: func(line string) { t.Log(line) }})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()

			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			commands := system.Control(s.Temporal(), local.Options{})
			tight, err := commands.Status(ctx, "tight")
			require.NoError(t, err)
			assert.Equal(t, 40., tight.Rate)
			require.NotNil(t, tight.Failure, "the refused change waits")
			assert.Contains(t, tight.Failure.Reason, "50000 requests per second need")
			assert.NotEmpty(t, tight.Declared, "there is a declaration to go back to")
			pool, err := commands.Status(ctx, "ranking")
			require.NoError(t, err)
			assert.Equal(t, map[string]int{"gpu": 2}, pool.Plan.Pool.Instances)
			answered(ctx, t, s.Client())

			serves := func(name string) func(workflows.ChangeReply, error) control.Status {
				return func(reply workflows.ChangeReply, err error) control.Status {
					require.NoError(t, err)
					status, err := commands.WaitServing(ctx, name, reply.Generation, nil)
					require.NoError(t, err)
					return status
				}
			}
			assert.Equal(t, 100., serves("tight")(commands.Rescale(ctx, "tight", workflows.RescaleRequest{Rate: 100})).Rate)
			assert.Equal(t, 200., serves("tight")(commands.Rollback(ctx, "tight", workflows.RollbackRequest{To: 2})).Rate)
			assert.Equal(t, map[string]int{"gpu": 1}, serves("ranking")(commands.Rollback(ctx, "ranking", workflows.RollbackRequest{})).Plan.Pool.Instances)
			answered(ctx, t, s.Client())
		})
	}
}

// answered sends a request to everything that serves.
func answered(ctx context.Context, t *testing.T, c *sdk.Client) {
	x := sdk.Inputs{"x": sdk.Float32(make([]float32, 4), 4)}
	for name, in := range map[string]sdk.Inputs{
		"tight": x, "cars": x, "faces": x, "ranking": {"items": sdk.Float32(make([]float32, 7), 7, 1)},
	} {
		_, err := c.Infer(ctx, name, in)
		assert.NoError(t, err, name)
	}
}
