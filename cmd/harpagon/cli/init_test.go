package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInitWritesWhatPlansAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	got := run(t, "init", dir)
	assert.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "wrote "+filepath.Join(dir, "pipeline.hcl"))
	assert.Contains(t, got.stdout, "harpagon plan "+dir)

	assert.Equal(t, result{ExitOK, "", ""}, run(t, "fmt", "--check", dir))
	assert.Equal(t, ExitOK, run(t, "validate", dir).code)
	for _, args := range [][]string{{}, {"--var", "rate=5"}, {"--var", "rate=2000"}} {
		got = run(t, append([]string{"plan", dir}, args...)...)
		assert.Equal(t, ExitOK, got.code, got.stdout)
		assert.Regexp(t, "objects: (optimal|feasible) plan", got.stdout)
	}
	assert.Contains(t, read(t, filepath.Join(dir, "profiles", "detect.csv")), "Synthetic")
}

func TestInitOverwritesNothing(t *testing.T) {
	dir := folder(t, map[string]string{"profiles/detect.csv": "mine"})
	got := run(t, "init", dir)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, filepath.Join(dir, "profiles", "detect.csv"))
	assert.Equal(t, "mine", read(t, filepath.Join(dir, "profiles", "detect.csv")))
	_, err := os.Stat(filepath.Join(dir, "pipeline.hcl"))
	require.ErrorIs(t, err, os.ErrNotExist, "all or nothing")
}
