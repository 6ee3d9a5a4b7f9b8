package cli

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/ocr"
	"github.com/harpagon/harpagon/pipelines/hcl"
)

// root is the folder of the module.
const root = "../../.."

// TestEveryDeclarationOfTheRepository holds all HCL files to the documented rules: folder
// by folder they validate, and they are in canonical form.
func TestEveryDeclarationOfTheRepository(t *testing.T) {
	folders := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (entry.Name() == "testdata" || entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, ".hcl"):
			folders[filepath.Dir(path)] = true
		}
		return nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(folders), 2, "the examples and what init writes")
	for dir := range folders {
		t.Run(filepath.ToSlash(strings.TrimPrefix(dir, root)), func(t *testing.T) {
			if why := missing(dir); why != nil {
				t.Logf("not validated: %v", why)
			} else {
				got := runWith(t, Deps{Environ: os.Environ()}, "validate", dir)
				assert.Equal(t, ExitOK, got.code, got.stderr)
				assert.Empty(t, got.stderr)
			}
			got := run(t, "fmt", "--check", "--diff", dir)
			assert.Equal(t, ExitOK, got.code, "run harpagon fmt %s\n%s", dir, got.stdout)
		})
	}
}

// missing reports which networks of an example are not part of the repository and
// have not been fetched or written, or that a folder has no declarations.
func missing(dir string) error {
	switch filepath.Base(dir) {
	case "cluster":
		return errors.New("what is there is for the control role, which a test of its own reads")
	case "ocr", "real": // a cluster that reads pages, too
		return ocr.Installed(root)
	case "dense":
		_, err := os.Stat(filepath.Join(dir, "dense.onnx"))
		return err
	case "voices":
		_, err := os.Stat(filepath.Join(root, "node_modules", "@ricky0123", "vad-web", "dist", "silero_vad_v5.onnx"))
		return err
	}
	return nil
}

func TestValidateSaysWhatItChecked(t *testing.T) {
	got := run(t, "validate", smallFolder(t, "400ms"))
	assert.Equal(t, result{ExitOK,
		"Valid: 1 file, 1 pipeline, 2 modules, 1 kind of hardware, 6 profile points; shapes between modules\n  compared.\n", ""}, got)
}

func TestValidateFindsEverythingAtItsPlace(t *testing.T) {
	dir := smallFolder(t, "9ms")
	path := filepath.Join(dir, "small.hcl")
	text := strings.Replace(read(t, path), "module.detect.vehicles", "module.detekt.vehicles", 1)
	text = strings.Replace(text, "price = 3.06", `price = "3.06"`, 1)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))

	got := run(t, "validate", dir)
	assert.Equal(t, ExitError, got.code)
	assert.Empty(t, got.stdout)
	for _, text := range []string{"small.hcl line 2", "without unit or quotes", "small.hcl line 21", `Did you mean "detect"?`, "module.detekt.vehicles", "SLO 9ms cannot be met", "Not valid: "} {
		assert.Contains(t, got.stderr, text)
	}
	assert.NotContains(t, got.stderr, "\x1b[", "no colours without a terminal")

	got = run(t, "validate", dir, "--json")
	assert.Equal(t, ExitError, got.code)
	assert.Empty(t, got.stderr)
	var out struct {
		Valid    bool
		Findings []hcl.Finding
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &out))
	assert.False(t, out.Valid)
	assert.GreaterOrEqual(t, len(out.Findings), 3)
	assert.Equal(t, 2, out.Findings[0].Line)
	assert.Equal(t, "error", out.Findings[0].Severity)
}

func TestValidateAsJSON(t *testing.T) {
	got := run(t, "validate", smallFolder(t, "400ms"), "--json")
	assert.Equal(t, result{ExitOK, "{\n  \"valid\": true,\n  \"findings\": []\n}\n", ""}, got)
}

func TestColoursAreForTerminals(t *testing.T) {
	dir := smallFolder(t, "9ms")
	assert.Contains(t, runWith(t, Deps{Terminal: true}, "validate", dir).stderr, "\x1b[")
	assert.NotContains(t, runWith(t, Deps{Terminal: true, Environ: []string{"NO_COLOR=1"}}, "validate", dir).stderr, "\x1b[")
}

func TestVariables(t *testing.T) {
	dir := smallFolder(t, "${var.slo}")
	path := filepath.Join(dir, "small.hcl")
	text := read(t, path) + "\nvariable \"slo\" {\n  type    = string\n  default = \"400ms\"\n}\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	file := filepath.Join(dir, "values.txt")
	require.NoError(t, os.WriteFile(file, []byte("slo = \"8ms\"\n"), 0o644))
	env := Deps{Environ: []string{"HARPAGON_VAR_slo=9ms"}}

	assert.Equal(t, ExitOK, run(t, "validate", dir).code)
	assert.Contains(t, runWith(t, env, "validate", dir).stderr, "SLO 9ms cannot be met")
	assert.Contains(t, runWith(t, env, "validate", dir, "--var-file", file).stderr, "SLO 8ms cannot be met")
	assert.Contains(t, runWith(t, env, "validate", dir, "--var-file", file, "--var", "slo=7ms").stderr, "SLO 7ms cannot be met")
	assert.Contains(t, run(t, "validate", dir, "--var", "solo=7ms").stderr, `Did you mean "slo"?`)
}

func TestValidateOfNothing(t *testing.T) {
	assert.Contains(t, run(t, "validate", "nowhere").stderr, "harpagon init")
	assert.Contains(t, run(t, "validate", t.TempDir()).stderr, "holds no *.hcl files")
	got := run(t, "validate", folder(t, map[string]string{"a.hcl": "# nothing yet\n"}))
	assert.Equal(t, ExitError, got.code)
	assert.Contains(t, got.stderr, "declare no pipeline")
}
