//go:build !noserver

package local_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
)

// TestAProgramOfOnesOwnServes brings up the example, whose command imports a file that
// no argument names.
func TestAProgramOfOnesOwnServes(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	s, err := local.Start(t.Context(), local.Options{Files: []string{"../../examples/process/flowers.hcl"}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	out, err := s.Client().Infer(t.Context(), "flowers", sdk.Inputs{"features": sdk.Float32([]float32{5.1, 3.5, 1.4, 0.2}, 4)})
	require.NoError(t, err)
	words, err := out.Strings("label")
	require.NoError(t, err)
	assert.Equal(t, []string{"short"}, words)
}
