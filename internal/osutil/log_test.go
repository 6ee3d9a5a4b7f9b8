package osutil

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALogStaysBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "engines.log")
	const most = 1000
	l := &Log{path: path, most: most}
	require.NoError(t, l.open())
	line := strings.Repeat("x", 99) + "\n"
	for range 100 {
		_, err := l.Write([]byte(line))
		require.NoError(t, err)
		require.LessOrEqual(t, size(t, path), int64(most))
	}
	require.NoError(t, l.Close())
	require.EqualValues(t, most, size(t, old(path)), "what was written before is beside it")
	require.EqualValues(t, most, size(t, path))

	l = &Log{path: path, most: most}
	require.NoError(t, l.open())
	_, err := l.Write([]byte("one more\n"))
	require.NoError(t, err)
	require.EqualValues(t, len("one more\n"), size(t, path), "what was there counts")
	require.NoError(t, l.Close())
	require.NoError(t, RemoveLog(path))
	require.NoFileExists(t, old(path))
}

func TestALogOfAnotherProcessIsTrimmed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.log")
	writer, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer writer.Close()
	_, err = writer.WriteString(strings.Repeat("a", 900) + strings.Repeat("b", 600))
	require.NoError(t, err)
	require.NoError(t, trim(path, 2000))
	require.EqualValues(t, 1500, size(t, path))
	require.NoError(t, trim(path, 1000))
	kept, err := os.ReadFile(old(path))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("a", 400)+strings.Repeat("b", 600), string(kept))
	_, err = writer.WriteString("after")
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "after", string(text), "it goes on at the beginning")
	require.Error(t, trim(filepath.Join(t.TempDir(), "none"), 1))
}

func size(t *testing.T, path string) int64 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}
