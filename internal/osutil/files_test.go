package osutil

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// None of these is waited for, nor read until memory ends.
func TestOnlyRegularFilesOfABoundedSizeAreRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(at("file"), []byte("content"), 0o600))
	require.NoError(t, os.Symlink(at("file"), at("link")))
	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	require.NoError(t, os.Symlink("/dev/zero", at("zero")))
	for _, name := range []string{"file", "link"} {
		got, err := ReadFile(at(name), 7)
		require.NoError(t, err)
		assert.Equal(t, "content", string(got))
	}
	for name, want := range map[string]string{
		at("pipe"): "is no regular file but a pipe", at("zero"): "is no regular file but a device", "/dev/zero": "but a device",
		dir: "is a folder; name one file", at("none"): "no such file",
	} {
		_, err := ReadFile(name, 7)
		assert.ErrorContains(t, err, want)
		_, err = StatFile(name)
		assert.ErrorContains(t, err, want)
	}
	_, err := ReadFile(at("file"), 6)
	assert.ErrorContains(t, err, "7 bytes or more; it may have 6")
	if _, err := os.Stat("/proc/self/maps"); err == nil { // its reported size is 0
		_, err = ReadFile("/proc/self/maps", 6)
		assert.ErrorContains(t, err, "it may have 6")
	}
	_, err = ReadGivenFile("/dev/zero", 1<<20)
	assert.ErrorContains(t, err, "it may have 1048576")
	empty, err := ReadGivenFile("/dev/null", 1)
	require.NoError(t, err)
	assert.Empty(t, empty)
}
