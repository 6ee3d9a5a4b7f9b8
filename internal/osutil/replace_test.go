package osutil_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/internal/testkit"
)

func TestWhatWasThereStays(t *testing.T) {
	for _, fault := range testkit.DiskFaults() {
		t.Run(fault.Name, func(t *testing.T) {
			d := testkit.NewDisk(t)
			path := filepath.Join(d.Folder, "kept")
			require.NoError(t, osutil.ReplaceFile(path, []byte("before"), 0o640))
			require.NoError(t, fault.Begin(d))
			err := osutil.ReplaceFile(path, make([]byte, 10_000), 0o600)
			require.ErrorContains(t, err, path+": ")
			var at *fs.PathError
			require.ErrorAs(t, err, &at)
			assert.Contains(t, []error{syscall.ENOSPC, syscall.EROFS}, at.Err)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, "before", string(text))
			require.NoError(t, fault.End(d))
			left, err := os.ReadDir(d.Folder)
			require.NoError(t, err)
			assert.Len(t, left, 1, "nothing half written is left")
			require.NoError(t, osutil.ReplaceFile(path, []byte("after"), 0o600))
		})
	}
}

func TestLinksModesAndPipesStay(t *testing.T) {
	folder := t.TempDir()
	file, link := filepath.Join(folder, "file"), filepath.Join(folder, "link")
	require.NoError(t, os.WriteFile(file, []byte("a long text"), 0o640))
	require.NoError(t, os.Symlink("file", link))
	require.NoError(t, osutil.ReplaceFile(link, []byte("short"), 0o600))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "short", string(text))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	assert.Equal(t, fs.ModeSymlink, info.Mode().Type())
	info, err = os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o640), info.Mode())

	pipe := filepath.Join(folder, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	read := make(chan string)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	require.NoError(t, osutil.ReplaceFile(pipe, []byte("through"), 0o600))
	assert.Equal(t, "through", <-read)
	require.ErrorIs(t, osutil.ReplaceFile("/dev/full", []byte("x"), 0o600), syscall.ENOSPC)
	require.NoError(t, osutil.ReplaceFile("/dev/null", []byte("x"), 0o600))
}
