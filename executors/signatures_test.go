package executors

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
)

// signer is an engine that only returns signatures.
type signer struct{ named }

func (signer) Signature(m pipelines.Module) (pipelines.Signature, error) {
	return pipelines.Signature{Inputs: []pipelines.Port{{Name: m.Function + m.Model}}}, nil
}

func TestSignaturesAskTheEngineFirst(t *testing.T) {
	known := Signatures(named{name: "gorgonia"}, signer{named{name: "function"}}, signer{named{name: "remote"}})
	sig, err := known(pipelines.Module{Function: "crop"})
	require.NoError(t, err)
	require.Equal(t, "crop", sig.Inputs[0].Name)
	sig, err = known(pipelines.Module{Model: "resnet", Engine: "remote"})
	require.NoError(t, err)
	require.Equal(t, "resnet", sig.Inputs[0].Name)
	sig, err = known(pipelines.Module{Name: "planned"})
	require.NoError(t, err)
	require.Empty(t, sig)
	_, err = Signatures()(pipelines.Module{Name: "m", Function: "crop"})
	require.ErrorContains(t, err, `module "m": the function "crop" is not registered here`)
}

func TestSignaturesReadTheModel(t *testing.T) {
	file := func(content []byte) pipelines.Module {
		path := filepath.Join(t.TempDir(), "m.onnx")
		require.NoError(t, os.WriteFile(path, content, 0o600))
		return pipelines.Module{Name: "m", Model: path}
	}
	b := onnx.NewBuilder("dense", "x", 4)
	b.Gemm(make([]float32, 8), make([]float32, 2), 4, 2)
	sig, err := Signatures()(file(b.Model("y").Encode()))
	require.NoError(t, err)
	require.Equal(t, pipelines.Signature{Inputs: []pipelines.Port{port("x", 4)}, Outputs: []pipelines.Port{port("y", 2)}}, sig)

	_, err = Signatures()(pipelines.Module{Name: "m", Model: "/does/not/exist"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, `executors: module "m": onnx:`)
	_, err = Signatures()(file([]byte("no network")))
	require.ErrorContains(t, err, "m.onnx")

	planned := file(nil)
	_, err = Signatures()(planned)
	require.Error(t, err, "an empty file needs a profile")
	planned.Profile.Points = []pipelines.Point{{Hardware: "v100", Batch: 1}}
	sig, err = Signatures()(planned)
	require.NoError(t, err)
	require.Empty(t, sig)
}

// A network of a fixed batch serves a pool only where no query is larger.
func TestAPoolNeedsANetworkOfEverySize(t *testing.T) {
	b := onnx.NewBuilder("dense", "x", 4)
	b.Gemm(make([]float32, 8), make([]float32, 2), 4, 2)
	net := b.Model("y")
	net.Graph.Inputs[0] = onnx.Declare("x", onnx.Float, 8, 4)
	path := filepath.Join(t.TempDir(), "m.onnx")
	require.NoError(t, os.WriteFile(path, net.Encode(), 0o600))
	m := pipelines.Module{Name: "query", Model: path, Engine: "onnxruntime", Sized: true, Batches: []int{1, 8}}
	_, err := Signatures()(m)
	require.NoError(t, err)
	m.Batches = []int{1, 9}
	_, err = Signatures()(m)
	require.ErrorContains(t, err, "the batch dimension is fixed at 8, but queries of the pool have up to 9 items")
	m.Sized = false
	_, err = Signatures()(m)
	require.NoError(t, err, "other modules take the batches that fit")
}
