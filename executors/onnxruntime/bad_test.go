package onnxruntime

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func TestBadModels(t *testing.T) {
	needs(t)
	rng := rand.New(rand.NewPCG(1, 1))
	unknown := denseModel(rng, 4, 2)
	unknown.Graph.Nodes[0].Op = "Frobnicate"
	future := denseModel(rng, 4, 2)
	future.Opsets[0].Version = 999
	untyped := mean()
	untyped.Graph.Inputs[0].Type.Tensor.Element = 0
	misfit := denseModel(rng, 4, 2)
	misfit.Graph.Initializers[0].Dims = []int64{2, 4}
	truncated := denseModel(rng, 64, 64).Encode()
	for _, c := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "not an ONNX file"},
		{"text", []byte("this is no network, but a text"), "not an ONNX file"},
		{"cut", truncated[:len(truncated)/2], "not an ONNX file"},
		{"operator", unknown.Encode(), "Frobnicate"},
		{"opset", future.Encode(), "cannot be loaded by ONNX Runtime"},
		{"no type", untyped.Encode(), "is no tensor with a shape"},
		{"weights that do not fit", misfit.Encode(), "onnxruntime:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.onnx")
			require.NoError(t, os.WriteFile(path, c.content, 0o600))
			_, err := New(Options{}).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: path}, Batches: []int{1}})
			require.Equal(t, wire.CodeInvalid, code(t, err))
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "at m")
		})
	}
	_, err := New(Options{}).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: "/does/not/exist"}})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = New(Options{}).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m"}})
	require.ErrorContains(t, err, "set model to an ONNX file")
	_, err = New(Options{}).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: write(t, mean())}, Batches: []int{maxBatch + 1}})
	require.ErrorContains(t, err, "not all between 1 and")
}

func TestAnOutputWithoutBatch(t *testing.T) {
	needs(t)
	m := mean()
	m.Graph.Nodes = append(m.Graph.Nodes, &onnx.Node{Op: "ReduceMean", Inputs: []string{"mean"}, Outputs: []string{"all"},
		Attributes: []*onnx.Attribute{{Name: "axes", Kind: onnx.KindInts, Ints: []int64{0}}}})
	m.Graph.Outputs = []*onnx.ValueInfo{onnx.Declare("all", onnx.Float, 1, 2, 1, 1)}
	in := load(t, write(t, m), 2)
	items, _ := batchOf(rand.New(rand.NewPCG(1, 1)), 2, 2, 3, 3)
	_, err := in.Run(t.Context(), items)
	require.Equal(t, wire.CodeInternal, code(t, err), "no mistake of the caller")
	require.ErrorContains(t, err, "dimension 0 is not the batch")
	require.ErrorContains(t, err, "batch_axis = { all = ... }")
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestLibraries(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libonnxruntime.so")
	require.NoError(t, os.WriteFile(text, []byte("no library"), 0o600))
	var wrong *LibraryError
	_, err := Find(Options{Library: text})
	require.ErrorAs(t, err, &wrong)
	assert.Contains(t, wrong.Reason, "it is no shared library")
	_, err = Find(Options{Getenv: environment(variable, "/does/not/exist.so")})
	require.ErrorAs(t, err, &wrong)
	assert.Contains(t, wrong.Reason, variable+" names it")
	e := New(Options{Library: text})
	assert.Equal(t, "missing", e.Version())
	_, err = e.Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: write(t, mean())}})
	require.Error(t, err)
}

func TestALibraryThatIsTooOldOrNoneOfTheKind(t *testing.T) {
	lib := needs(t)
	content, err := os.ReadFile(lib.Path)
	require.NoError(t, err)
	change := func(from, to string) string {
		path := filepath.Join(t.TempDir(), "libonnxruntime.so")
		require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(content, []byte(from), []byte(to)), 0o600))
		return path
	}
	var wrong *LibraryError
	_, err = Find(Options{Library: change("VERS_"+lib.Version, "VERS_1.16.3")})
	require.ErrorAs(t, err, &wrong)
	assert.Contains(t, wrong.Reason, "it is ONNX Runtime 1.16.3, and 1.24 or later is needed")
	_, err = Find(Options{Library: change("OrtGetApiBase\x00", "OrtGetApiBasf\x00")})
	require.ErrorAs(t, err, &wrong)
	assert.Contains(t, wrong.Reason, "it is not ONNX Runtime")
}

func TestVersions(t *testing.T) {
	for version, want := range map[string]bool{"1.24.3": true, "1.25": true, "2.0.0": true, "unknown": true, "1.23.9": false, "0.99.1": false} {
		assert.Equal(t, want, recent(version), version)
	}
}

func TestProviders(t *testing.T) {
	lib := needs(t)
	assert.Equal(t, "onnxruntime-cuda", New(Options{Provider: CUDA}).Name())
	p, ok := ProviderOf("onnxruntime-tensorrt")
	assert.True(t, ok)
	assert.Equal(t, TensorRT, p)
	_, ok = ProviderOf("gorgonia")
	assert.False(t, ok)
	if CUDA.check(lib) == nil {
		t.Skip("this library computes on GPUs")
	}
	_, err := New(Options{Provider: CUDA}).Load(t.Context(), executors.Model{Module: pipelines.Module{Name: "m", Model: write(t, mean())}})
	wrong := new(LibraryError)
	require.True(t, errors.As(err, &wrong))
	assert.Contains(t, wrong.Reason, "it computes on the CPU only, for libonnxruntime_providers_cuda.so is not beside it")
}
