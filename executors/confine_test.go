package executors

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
)

func TestConfinement(t *testing.T) {
	dir := t.TempDir()
	models, secrets := filepath.Join(dir, "models"), filepath.Join(dir, "secrets")
	require.NoError(t, os.MkdirAll(models, 0o700))
	require.NoError(t, os.MkdirAll(secrets, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(secrets, "key"), nil, 0o600))
	require.NoError(t, os.Symlink(secrets, filepath.Join(models, "link")))
	c := Confinement{Folders: []string{models}, Commands: []string{"triton"}, Addresses: []string{"127.0.0.1:9000", "models.example"}}
	key := filepath.Join(secrets, "key")
	for name, one := range map[string]struct {
		module pipelines.Module
		want   string
	}{
		"in a folder":         {pipelines.Module{Model: filepath.Join(models, "a.onnx")}, ""},
		"the folder":          {pipelines.Module{Model: models}, ""},
		"nothing to read":     {pipelines.Module{Function: "crop"}, ""},
		"elsewhere":           {pipelines.Module{Model: key}, "--allow-folder " + secrets},
		"above":               {pipelines.Module{Model: filepath.Join(models, "..", "secrets", "key")}, "needs to read"},
		"a folder's namesake": {pipelines.Module{Model: models + "2"}, "needs to read"},
		"by a link":           {pipelines.Module{Model: filepath.Join(models, "link", "key")}, "needs to read"},
		"by a link to be":     {pipelines.Module{Model: filepath.Join(models, "link", "new")}, "needs to read"},
		"by its digest":       {pipelines.Module{Model: key, Content: []pipelines.File{{Path: key, Digest: "sha256:00"}}}, ""},
		"one file of two":     {pipelines.Module{Command: []string{"triton"}, Files: []string{filepath.Join(models, "a"), key}}, "needs to read"},
		"a parameter":         {pipelines.Module{Function: "ctc_text", Parameters: map[string]any{"dictionary_file": key}}, "--allow-folder " + secrets},
		"an allowed one":      {pipelines.Module{Function: "ctc_text", Parameters: map[string]any{"dictionary_file": filepath.Join(models, "a.txt"), "note": key}}, ""},
		"a command":           {pipelines.Module{Command: []string{"triton", "--verbose"}}, ""},
		"another command":     {pipelines.Module{Command: []string{"/bin/sh", "-c", "true"}}, "--allow-command /bin/sh"},
		"a command's path":    {pipelines.Module{Command: []string{"./triton"}}, "does not allow"},
		"a server":            {pipelines.Module{Model: "grpc://127.0.0.1:9000/m"}, ""},
		"a server's port":     {pipelines.Module{Model: "grpc://127.0.0.1:9001/m"}, "--allow-address 127.0.0.1:9001"},
		"a host of any port":  {pipelines.Module{Model: "https://models.example:1/m"}, ""},
		"a host that ends so": {pipelines.Module{Model: "https://evil.models.example/m"}, "needs to call"},
	} {
		one.module.Name = "m"
		err := c.Check(one.module)
		if one.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, one.want, name)
		}
		assert.NoError(t, Confinement{}.Check(one.module), name)
	}
	h := &Host{Confine: c}
	_, _, err := h.place(context.Background(), pipelines.Module{Name: "m", Model: key})
	assert.ErrorContains(t, err, "needs to read", "nothing is placed, measured or loaded before")
	_, err = h.EngineFor(pipelines.Module{Name: "m", Model: key})
	assert.ErrorContains(t, err, "needs to read", "its digest is not revealed")
}
