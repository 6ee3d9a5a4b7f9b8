package system

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/scheduler/placement"
)

func TestFolderIsForOneSystemAtATime(t *testing.T) {
	f := Folder(t.TempDir())
	assert.False(t, f.Running())
	unlock, err := f.open()
	require.NoError(t, err)
	assert.True(t, f.Running())
	_, err = f.open()
	assert.ErrorContains(t, err, "in use by process")
	require.NoError(t, f.publish(Endpoints{PID: 7, Gateway: "http://127.0.0.1:1"}))
	e, err := f.Endpoints()
	require.NoError(t, err)
	assert.Equal(t, 7, e.PID)
	unlock()
	_, err = f.Endpoints()
	assert.ErrorIs(t, err, ErrNotRunning, "the addresses of a killed system are not believed")
	unlock, err = f.open()
	require.NoError(t, err)
	unlock()
}

func TestFolderOfAnotherVersion(t *testing.T) {
	f := Folder(t.TempDir())
	require.NoError(t, os.WriteFile(f.version(), []byte("0\n"), 0o600))
	_, err := f.open()
	assert.ErrorContains(t, err, `has version "0"`)
	assert.False(t, f.Running(), "a refused folder is not left locked")
}

func TestFolderIsForItsOwnerOnly(t *testing.T) {
	f := Folder(t.TempDir())
	require.NoError(t, os.Chmod(string(f), 0o755)) // as one of an older version
	unlock, err := f.open()
	require.NoError(t, err)
	defer unlock()
	info, err := os.Stat(string(f))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestFolderRemembersDevices(t *testing.T) {
	f := Folder(t.TempDir())
	none, err := f.remembered()
	require.NoError(t, err)
	assert.Empty(t, none)
	want := []placement.Device{{Host: "local", Name: "t4/0", Hardware: "t4", Memory: 1 << 30}}
	require.NoError(t, f.remember(want))
	got, err := f.remembered()
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestExternal(t *testing.T) {
	assert.True(t, External([]string{"A=1", "TEMPORAL_ADDRESS=t:7233"}))
	assert.False(t, External([]string{"TEMPORAL_ADDRESS=", "TEMPORAL_NAMESPACE=x"}))
}

// What begins on a full disk must not look like the folder of another Harpagon afterwards.
func TestFolderOnADiskThatTakesNothing(t *testing.T) {
	for _, fault := range testkit.DiskFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			d := testkit.NewDisk(t)
			f := Folder(filepath.Join(d.Folder, "state"))
			require.NoError(t, os.Mkdir(string(f), 0o700))
			require.NoError(t, fault.Begin(d))
			_, err := f.open()
			require.ErrorContains(t, err, "state folder "+string(f))
			require.NoError(t, fault.End(d))
			unlock, err := f.open()
			require.NoError(t, err)
			unlock()
			want := []placement.Device{{Name: "t4/0"}}
			require.NoError(t, f.remember(want))
			require.NoError(t, fault.Begin(d))
			require.ErrorContains(t, f.remember(slices.Repeat(want, 1000)), "state folder "+string(f))
			got, err := f.remembered()
			require.NoError(t, err)
			assert.Equal(t, want, got)
			require.NoError(t, fault.End(d))
		})
	}
}

// A file that cannot be written is named with the reason, in the error of what failed for
// it too.
func TestFolderReportsThatItsDiskIsFull(t *testing.T) {
	for _, fault := range testkit.DiskFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			d := testkit.NewDisk(t)
			f := Folder(d.Folder)
			late := errors.New("context deadline exceeded")
			require.NoError(t, f.WriteError())
			require.Equal(t, late, f.Explain(late))
			require.NoError(t, f.Explain(nil))
			require.NoError(t, fault.Begin(d))
			require.ErrorContains(t, f.WriteError(), "nothing can be written to the state folder "+d.Folder)
			require.ErrorIs(t, f.Explain(late), late)
			require.ErrorContains(t, f.Explain(late), "nothing can be written")
			require.NoError(t, f.Explain(nil))
			_, err := Start(t.Context(), Options{StateDir: d.Folder, Environ: []string{}})
			require.ErrorContains(t, err, d.Folder)
			require.NotContains(t, err.Error(), "control role")
			require.NoError(t, fault.End(d))
			require.NoError(t, f.WriteError())
			left, err := os.ReadDir(d.Folder)
			require.NoError(t, err)
			for _, e := range left {
				assert.NotContains(t, e.Name(), "room", "nothing is left of looking")
			}
		})
	}
	require.NoError(t, Folder(filepath.Join(t.TempDir(), "none")).WriteError(), "a folder that is not there is no full disk")
}

func TestDamagedFilesAreNamed(t *testing.T) {
	f := Folder(t.TempDir())
	for _, path := range []string{f.devices(), f.endpoints()} {
		require.NoError(t, os.WriteFile(path, []byte("[{\"Host\": \"lo"), 0o600))
	}
	_, err := f.remembered()
	require.ErrorContains(t, err, f.devices())
	require.ErrorContains(t, err, "harpagon up PATH")
	unlock, err := f.open()
	require.NoError(t, err)
	defer unlock()
	_, err = f.Endpoints()
	require.ErrorContains(t, err, f.endpoints())
}
