package executors

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
)

// absent is an engine that cannot run here.
type absent struct{ named }

var errNoLibrary = errors.New("no library")

func (absent) Available() error { return errNoLibrary }

func modelFile(t *testing.T, content []byte) string {
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

func dense() *onnx.Model {
	b := onnx.NewBuilder("dense", "x", 4)
	b.Gemm(make([]float32, 8), make([]float32, 2), 4, 2)
	return b.Model("y")
}

func TestWhereTheLibraryIsMissing(t *testing.T) {
	var lines []string
	h := &Host{Name: "a", Engines: []Engine{named{name: "gorgonia"}, absent{named{name: "onnxruntime"}}}, Notice: func(s string) { lines = append(lines, s) }}
	for _, engine := range []string{"", "auto", "onnxruntime"} {
		e, err := h.EngineFor(pipelines.Module{Name: "m" + engine, Model: modelFile(t, dense().Encode()), Engine: engine})
		require.NoError(t, err)
		require.Equal(t, "gorgonia", e.Name())
	}
	require.Len(t, lines, 3)
	require.Equal(t, "module m is served by gorgonia, slower, because onnxruntime cannot run on host a: no library", lines[0])
	_, err := h.EngineFor(pipelines.Module{Name: "m", Model: modelFile(t, dense().Encode())})
	require.NoError(t, err)
	require.Len(t, lines, 3, "each module once")

	strange := dense()
	strange.Graph.Nodes[0].Op = "Erf"
	_, err = h.EngineFor(pipelines.Module{Name: "m", Model: modelFile(t, strange.Encode()), Engine: "onnxruntime"})
	require.ErrorIs(t, err, errNoLibrary)
	require.ErrorContains(t, err, `cannot take its place`)
	require.ErrorContains(t, err, `operator "Erf" is not supported`)
}

func TestSignaturesOfModelsThatOnlyOneEngineTakes(t *testing.T) {
	strange := dense()
	strange.Graph.Nodes[0].Op = "Erf"
	m := pipelines.Module{Name: "m", Model: modelFile(t, strange.Encode())}
	_, err := Signatures()(m)
	require.ErrorContains(t, err, `operator "Erf"`)
	want := pipelines.Signature{Inputs: []pipelines.Port{port("x", 4)}, Outputs: []pipelines.Port{port("y", 2)}}
	sig, err := Signatures(absent{named{name: "onnxruntime"}})(m)
	require.NoError(t, err, "another machine may have what this one lacks")
	require.Contains(t, sig.Unchecked, "onnxruntime will run this; this machine cannot check it")
	sig.Unchecked = ""
	require.Equal(t, want, sig)
	sig, err = Signatures(named{name: "onnxruntime"})(m)
	require.NoError(t, err)
	require.Equal(t, want, sig)
	m.Engine = "onnxruntime-cuda"
	sig, err = Signatures()(m)
	require.NoError(t, err, "a plan needs no library")
	require.Equal(t, want, sig)
}
