package hcl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

const contentHCL = `
hardware "cpu" { price = 1 }
pipeline "p" {
  slo  = "1s"
  rate = 1
  input "x" {
    datatype = "FP32"
    shape    = [1]
  }
  module "m" {
    %s
    inputs = { x = input.x }
  }
  output "y" { value = module.m.y }
}
`

// module reads a declaration of one module, with what was found wrong.
func moduleOf(t *testing.T, folder, attributes string) (pipelines.Module, string) {
	path := filepath.Join(folder, "p.hcl")
	text := []byte(strings.Replace(contentHCL, "%s", attributes, 1))
	require.NoError(t, os.WriteFile(path, text, 0o600))
	c, diags := Load(LoadOptions{}, path)
	diags = append(diags, c.Validate(nil)...)
	if diags.HasErrors() {
		return pipelines.Module{}, diags.Error()
	}
	printed, diags := Parse(path, HCL(c.Document))
	require.Empty(t, diags, "what is printed can be read")
	require.Equal(t, c.Document.Pipelines[0].Modules[0], printed.Document.Pipelines[0].Modules[0])
	return c.Document.Pipelines[0].Modules[0], ""
}

func TestFilesOfCommandsAndAddressesOfModels(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"serve.py", "more.py"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	m, wrong := moduleOf(t, folder, "command = [\"python3\", \"./serve.py\"]\n    files   = [\"more.py\"]")
	require.Empty(t, wrong)
	require.Equal(t, []string{filepath.Join(folder, "more.py")}, m.Files)
	_, wrong = moduleOf(t, folder, "command = [\"python3\", \"./serve.py\"]\n    files   = [\"none.py\"]")
	require.Contains(t, wrong, "none.py does not exist")
	_, wrong = moduleOf(t, folder, "function = \"identity\"\n    files    = [\"more.py\"]")
	require.Contains(t, wrong, "Files without a command")

	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, address := range []string{"https://host/a/m.onnx", "https://host/a/m.onnx#" + digest, "s3://bucket/m", "oci://host/m:1"} {
		m, wrong = moduleOf(t, folder, "model = \""+address+"\"")
		require.Empty(t, wrong, address)
		require.Equal(t, address, m.Model)
		require.False(t, pipelines.IsRemote(m.Model))
	}
	_, wrong = moduleOf(t, folder, "model = \"https://host/a/m.onnx#sha256:12\"")
	require.Contains(t, wrong, "Invalid digest")
	require.True(t, pipelines.IsRemote("https://host/model"), "a model on a server")
}
