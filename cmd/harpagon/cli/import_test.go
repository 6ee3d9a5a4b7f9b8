package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// writeTritonModels writes a repository of an ensemble of two of the example's networks.
func writeTritonModels(t *testing.T) string {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, name := range []string{"vehicle", "colour"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "traffic", "models", name+".onnx"))
		require.NoError(t, err)
		write(name+"/1/model.onnx", string(text))
	}
	write("vehicle/config.pbtxt", `backend: "onnxruntime"
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 100 }
`)
	write("cars/config.pbtxt", `platform: "ensemble"
max_batch_size: 8
input [ { name: "CROP" data_type: TYPE_FP32 dims: [ 3, 24, 24 ] } ]
output [ { name: "KIND" data_type: TYPE_FP32 dims: [ 4 ] }, { name: "COLOUR" data_type: TYPE_FP32 dims: [ 6 ] } ]
ensemble_scheduling { step [
  { model_name: "vehicle" input_map { key: "crop" value: "CROP" } output_map { key: "scores" value: "KIND" } },
  { model_name: "colour" input_map { key: "crop" value: "CROP" } output_map { key: "scores" value: "COLOUR" } }
] }
`)
	return dir
}

func TestImportTriton(t *testing.T) {
	models, out := writeTritonModels(t), t.TempDir()
	got := run(t, "import", "triton", models, "--out", out, "--slo", "300ms", "--rate", "20")
	require.Equal(t, ExitOK, got.code, got.stderr)
	assert.Contains(t, got.stdout, "config.pbtxt:3:20: Different:")
	assert.Contains(t, got.stdout, "harpagon validate")
	text, err := os.ReadFile(filepath.Join(out, "pipelines.hcl"))
	require.NoError(t, err)
	assert.Contains(t, string(text), `default     = "300ms"`)

	checked := run(t, "validate", out)
	assert.Equal(t, ExitOK, checked.code, checked.stderr)
	assert.Contains(t, checked.stdout, "Valid: 1 file, 1 pipeline, 2 modules")
	assert.Empty(t, run(t, "fmt", "--check", out).stdout, "it is in canonical form")

	again := run(t, "import", "triton", models, "--out", out)
	assert.Equal(t, ExitError, again.code)
	assert.Contains(t, again.stderr, "import overwrites nothing")

	asJSON := run(t, "import", "triton", models, "--out", t.TempDir(), "--json")
	var result importedResult
	require.NoError(t, json.Unmarshal([]byte(asJSON.stdout), &result))
	assert.Len(t, result.Modules, 2)
	assert.NotEmpty(t, result.File)
}

func TestImportTritonRefuses(t *testing.T) {
	models, out := writeTritonModels(t), t.TempDir()
	require.NoError(t, os.RemoveAll(filepath.Join(models, "colour")))
	got := run(t, "import", "triton", models, "--out", out)
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, `There is no model "colour"`)
	assert.Contains(t, got.stderr, "line 7, column 5")
	assert.Contains(t, got.stderr, "Nothing was written: 1 error")
	assert.NoFileExists(t, filepath.Join(out, "pipelines.hcl"))
	assert.Equal(t, ExitError, run(t, "import", "triton", models, "--out", out, "--json").code)

	assert.Contains(t, run(t, "import", "triton").stderr, "name the folder that holds")
	assert.Contains(t, run(t, "import", "triton", models, "--rate", "0").stderr, "above zero")
	assert.Contains(t, run(t, "import", "triton", models, "--rate", "inf").stderr, "finite")
	assert.Equal(t, ExitOK, run(t, "import").code)

	for what, write := range map[string]func(path string) error{
		"no regular file": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"bytes":           func(path string) error { return os.WriteFile(path, make([]byte, mostShown+1), 0o600) },
	} {
		config := filepath.Join(models, "vehicle", "config.pbtxt")
		require.NoError(t, os.Remove(config))
		require.NoError(t, write(config))
		got := run(t, "import", "triton", models, "--out", out)
		assert.Equal(t, ExitError, got.code)
		assert.Contains(t, got.stderr, "Unusable configuration")
		assert.Contains(t, got.stderr, what)
		assert.Less(t, len(got.stderr), 4<<10)
	}
}
