//go:build !noserver

package cli

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/executors/reference"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/local"
	"github.com/harpagon/harpagon/wire"
)

// TestAnImportedEnsembleServes holds its answers to those of its networks, computed plainly.
func TestAnImportedEnsembleServes(t *testing.T) {
	models, out := writeTritonModels(t), t.TempDir()
	got := run(t, "import", "triton", models, "--out", out, "--slo", "30s", "--rate", "1")
	require.Equal(t, ExitOK, got.code, got.stderr)
	s, err := local.Start(t.Context(), local.Options{Files: []string{out}, StateDir: t.TempDir(), Environ: []string{}, WithoutUI: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()

	pixels := make([]float32, 3*24*24)
	for i := range pixels {
		pixels[i] = float32(i%17) / 17
	}
	answer, err := s.Client().Infer(t.Context(), "cars", sdk.Inputs{"CROP": wire.FromFloat32(pixels, 3, 24, 24)})
	require.NoError(t, err)
	for output, network := range map[string]string{"KIND": "vehicle", "COLOUR": "colour"} {
		model, err := onnx.ReadFile(filepath.Join(models, network, "1", "model.onnx"))
		require.NoError(t, err)
		program, err := onnx.Compile(model)
		require.NoError(t, err)
		want, err := reference.Run(program, [][]float32{pixels})
		require.NoError(t, err)
		have, err := answer.Float32s(output)
		require.NoError(t, err)
		assert.InDeltaSlice(t, want[0], have, 1e-3, output)
	}
}
