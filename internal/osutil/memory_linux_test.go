package osutil

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestNamedMemoryIsThereUntilItIsRemoved(t *testing.T) {
	folder := t.TempDir()
	file, remove, err := namedMemory(folder, NamePrefix+"a", 1<<16)
	if err != nil && !os.IsNotExist(err) {
		t.Skip("this file system has no files without names: ", err)
	}
	require.NoError(t, err)
	info, err := os.Stat(filepath.Join(folder, NamePrefix+"a"))
	require.NoError(t, err)
	require.EqualValues(t, 1<<16, info.Size())
	require.EqualValues(t, 0o600, info.Mode().Perm(), "nobody else's")

	// Memory of killed processes is removed; memory in use stays, and so does what is not
	// ours.
	for _, name := range []string{NamePrefix + "left", "others"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o600))
	}
	second, removeSecond, err := namedMemory(folder, NamePrefix+"b", 1)
	require.NoError(t, err)
	defer second.Close()
	require.NoFileExists(t, filepath.Join(folder, NamePrefix+"left"))
	require.FileExists(t, filepath.Join(folder, "others"))
	require.FileExists(t, file.Name())
	_, _, err = namedMemory(folder, NamePrefix+"a", 1)
	require.ErrorIs(t, err, os.ErrExist)
	remove()
	removeSecond()
	require.NoFileExists(t, file.Name())
	require.NoError(t, file.Close())
}

func TestNamedMemoryThatCannotBeHad(t *testing.T) {
	_, _, err := namedMemory(filepath.Join(t.TempDir(), "none"), NamePrefix+"a", 1)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "creating shared memory in")

	folder := t.TempDir()
	if os.Getuid() == 0 && unix.Mount("tmpfs", folder, "tmpfs", 0, "size=64k") == nil {
		defer func() { require.NoError(t, unix.Unmount(folder, 0)) }()
		_, _, err = namedMemory(folder, NamePrefix+"a", 1<<20)
		require.ErrorIs(t, err, unix.ENOSPC)
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestMemoryFileKeepsItsSize(t *testing.T) {
	file, err := MemoryFile(1 << 16)
	require.NoError(t, err)
	defer file.Close()
	require.Error(t, file.Truncate(1))
	require.Error(t, file.Truncate(1<<20))
}
