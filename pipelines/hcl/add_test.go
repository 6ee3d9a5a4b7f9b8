package hcl

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/build"
)

func TestAProgramDeclaresBesideFiles(t *testing.T) {
	own, err := build.New("own").SLO(time.Second).Rate(1).Input("x", "FP32", 1).
		Module(build.Profiled("m", pipelines.Point{Hardware: "v100", Batch: 1, Duration: time.Millisecond}).In("x", build.FromInput("x")).On("v100")).
		Module(build.Step("n", "normalize").In("x", build.From("m", "y"))).
		Output("y", build.From("n", "y")).Build()
	require.NoError(t, err)
	own.Modules[0].Model = "m.onnx"

	c, diags := Parse("/p.hcl", []byte(`hardware "v100" { price = 1 }`))
	require.False(t, diags.HasErrors())
	require.Empty(t, c.Add(pipelines.Document{Pipelines: []pipelines.Pipeline{own}}))
	diags = c.Validate(nil)
	require.False(t, diags.HasErrors(), diags)
	want, err := filepath.Abs("m.onnx")
	require.NoError(t, err)
	assert.Equal(t, want, c.Document.Pipelines[0].Modules[0].Model)
	assert.Equal(t, "m.onnx", own.Modules[0].Model, "the program's own value stays")

	diags = c.Add(pipelines.Document{Hardware: []pipelines.Hardware{{Name: "v100", Price: 2}}, Pipelines: []pipelines.Pipeline{own}})
	require.Len(t, diags, 2)
	assert.Contains(t, diags[0].Detail, `hardware "v100", which is declared already at /p.hcl:1`)
	assert.Contains(t, diags[1].Detail, `pipeline "own", which is declared already by the program`)
	assert.Len(t, c.Document.Hardware, 1)

	bad := own
	bad.Name, bad.SLO, bad.Modules = "bad", 0, nil
	require.Empty(t, c.Add(pipelines.Document{Pipelines: []pipelines.Pipeline{bad}}))
	found := Findings(c.Validate(nil))
	require.Len(t, found, 4, found) // the missing model of own, the objective, no modules, and what the output refers to
	assert.Equal(t, "Invalid objective", found[1].Summary)
	alone := NewConfig()
	require.Empty(t, alone.Add(pipelines.Document{Pipelines: []pipelines.Pipeline{own}}))
	assert.True(t, alone.Validate(nil).HasErrors(), "there is no hardware")
}
