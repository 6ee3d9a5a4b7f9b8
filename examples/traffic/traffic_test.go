package traffic

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/wire"
)

// TestAccuracy holds the whole pipeline to 0.90 on scenes that no network was
// trained on.
func TestAccuracy(t *testing.T) {
	r, err := Evaluate("models", FirstUnseen+500_000, 200)
	require.NoError(t, err)
	t.Log(r.Describe())
	assert.Greater(t, r.Objects, 250)
	assert.GreaterOrEqual(t, r.Accuracy(), 0.90)
	assert.GreaterOrEqual(t, r.Precision(), 0.90)
}

func TestModelsAreSmall(t *testing.T) {
	for _, name := range []string{"detect", "vehicle", "colour"} {
		info, err := os.Stat("models/" + name + ".onnx")
		require.NoError(t, err)
		assert.Less(t, info.Size(), int64(2<<20), name)
	}
}

// TestDeclarationAgrees holds the parameters of the evaluation to those of the
// declaration, and the declaration to the models' shapes.
func TestDeclarationAgrees(t *testing.T) {
	c, diags := hcl.Load(hcl.LoadOptions{}, "traffic.hcl")
	require.Empty(t, diags)
	require.Empty(t, c.Validate(executors.Signatures(steps.New(steps.Builtin()))))
	p := c.Document.Pipelines[0]
	assert.Equal(t, boxParameters(), p.Module("boxes").Parameters)
	assert.Equal(t, cropParameters(), p.Module("crops").Parameters)
	assert.Equal(t, labelParameters(scene.Kinds()), p.Module("vehicle_name").Parameters)
	assert.Equal(t, labelParameters(scene.Colours()), p.Module("colour_name").Parameters)
}

func TestFrames(t *testing.T) {
	frames, err := Frames()
	require.NoError(t, err)
	require.Len(t, frames, 24)
	seen := map[string]bool{}
	for _, f := range frames {
		assert.Equal(t, []int64{3, scene.Side, scene.Side}, f.Pixels.Shape)
		for _, o := range f.Truth {
			seen[o.Kind] = true
		}
	}
	assert.ElementsMatch(t, scene.Kinds(), slices.Collect(maps.Keys(seen)), "every kind is on some picture")
}

func TestScenesComeFromTheirSeed(t *testing.T) {
	var a, b, other bytes.Buffer
	require.NoError(t, scene.Draw(7).WritePNG(&a))
	require.NoError(t, scene.Draw(7).WritePNG(&b))
	require.NoError(t, scene.Draw(8).WritePNG(&other))
	assert.Equal(t, a.Bytes(), b.Bytes())
	assert.NotEqual(t, a.Bytes(), other.Bytes())
}

func TestDescribe(t *testing.T) {
	assert.Equal(t, "1 vehicle: red truck at (1,2)-(30,17)", Describe(map[string]wire.Tensor{
		"boxes": wire.FromFloat32([]float32{1, 2, 30, 17}, 1, 4), "kinds": wire.FromStrings([]string{"truck"}, 1), "colours": wire.FromStrings([]string{"red"}, 1),
	}))
	assert.Equal(t, "no vehicles", Describe(map[string]wire.Tensor{
		"boxes": wire.FromFloat32(nil, 0, 4), "kinds": wire.FromStrings(nil, 0), "colours": wire.FromStrings(nil, 0),
	}))
	assert.Contains(t, Describe(nil), "boxes")
}
