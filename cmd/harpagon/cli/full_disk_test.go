//go:build !noserver

package cli

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/sdk/local"
)

// TestAFullDiskIsNamed: commands to a system that cannot write its state fail with that
// reason, and succeed again as soon as there is room.
func TestAFullDiskIsNamed(t *testing.T) {
	disk, err := testkit.MountDisk(filepath.Join(t.TempDir(), "disk"), "size=64m,mode=0700")
	if err != nil {
		t.Skip("without a disk of its own: ", err)
	}
	t.Cleanup(disk.Unmount)
	const example = "../../../examples/emulated"
	state := filepath.Join(disk.Folder, "state")
	s, err := local.Start(t.Context(), local.Options{Files: []string{example}, StateDir: state, Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { assert.NoError(t, s.Close()) }()
	require.NoError(t, disk.Fill())
	got := run(t, "apply", example, "--var", "rate=60", "--state", state)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "nothing can be written to the state folder "+state+": no space left on device")
	require.NoError(t, disk.Free())
	require.Eventually(t, func() bool { return run(t, "status", "--state", state).code == ExitOK }, 2*time.Minute, time.Second)
}
