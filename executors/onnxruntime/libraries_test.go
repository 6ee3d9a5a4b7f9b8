package onnxruntime

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/child"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// compiled is a shared library of C source, with the header of ONNX Runtime that the binding has.
func compiled(t *testing.T, source string) string {
	t.Helper()
	needs(t)
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/yalue/onnxruntime_go").Output()
	if err != nil {
		t.Skip("the header is not found:", err)
	}
	path := filepath.Join(t.TempDir(), "libops.so")
	file := filepath.Join(filepath.Dir(path), "ops.c")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-I", strings.TrimSpace(string(dir)), "-o", path, file).CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v: %s", err, out)
	}
	return path
}

func TestOperatorsOfALibrary(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("testdata", "twice.c"))
	require.NoError(t, err)
	twice := &onnx.Node{Op: "Twice", Inputs: []string{"x"}, Outputs: []string{"y"}, Domain: "test"}
	net := netOf([]*onnx.ValueInfo{onnx.Declare("x", onnx.Float, -1, 2)}, []*onnx.ValueInfo{onnx.Declare("y", onnx.Float, -1, 2)}, twice)
	net.Opsets = append(net.Opsets, &onnx.OperatorSet{Domain: "test", Version: 1})
	m := moduleOf(t, net)
	m.Libraries = []string{compiled(t, string(source))}
	both(t, m, 2, func(t *testing.T, in executors.Instance) {
		got, err := in.Run(t.Context(), [][]wire.Tensor{{wire.FromFloat32([]float32{1, -3}, 2)}})
		require.NoError(t, err)
		assert.Equal(t, wire.FromFloat32([]float32{2, -6}, 2), got[0][0])
	})
}

// TestLibrariesThatCannotBeUsed: the error states why; a library that crashes takes only a child
// with it.
func TestLibrariesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"none":     {"", "cannot open shared object file"},
		"another":  {"int answer(void) { return 42; }", "it exports no RegisterCustomOps"},
		"refusing": {"#include \"onnxruntime_c_api.h\"\nOrtStatus *RegisterCustomOps(OrtSessionOptions *o, const OrtApiBase *b) { return b->GetApi(1)->CreateStatus(ORT_FAIL, \"not today\"); }", "not today"},
		"crashing": {"#include <stdlib.h>\n__attribute__((constructor)) static void begin(void) { abort(); }", "libops.so, which may have ended it"},
	} {
		t.Run(name, func(t *testing.T) {
			needs(t)
			path := filepath.Join(t.TempDir(), "missing.so")
			if c.source != "" {
				path = compiled(t, c.source)
			}
			m := moduleOf(t, mean())
			m.Libraries = []string{path}
			_, err := InChild(child.New(Name, child.Options{Output: io.Discard}), Options{}).Load(t.Context(), executors.Model{Module: m, Batches: []int{1}})
			require.ErrorContains(t, err, c.want)
		})
	}
	host := executors.Confinement{Folders: []string{"/models"}}
	m := pipelines.Module{Name: "m", Model: "/models/m.onnx", Libraries: []string{"/models/ops.so"}}
	require.NoError(t, host.Check(m))
	m.Libraries, m.Content = []string{"/tmp/ops.so"}, []pipelines.File{{Path: "/tmp/ops.so", Digest: "sha256:00"}}
	require.ErrorContains(t, host.Check(m), "--allow-folder /tmp")
}
