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
}

func size(t *testing.T, path string) int64 {
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}
