package system

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnx"
	"github.com/harpagon/harpagon/pipelines"
)

func TestServersAreDevicesOfTheirOwn(t *testing.T) {
	doc := pipelines.Document{
		Hardware: []pipelines.Hardware{{Name: "triton", Count: 2}, {Name: "kserve"}, {Name: "cpu"}, {Name: "gpu"}},
		Pipelines: []pipelines.Pipeline{{Modules: []pipelines.Module{
			{Model: "grpc://h:1/a", Hardware: []string{"triton", "gpu", "cpu"}},
			{Model: "grpc://h:1/b", Hardware: []string{"kserve"}},
			{Model: "c.onnx", Hardware: []string{"gpu", "cpu"}},
		}}},
	}
	all, err := Devices("h", doc, "", 1, false)
	require.NoError(t, err)
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	assert.Equal(t, []string{"cpu/0", "triton/0", "triton/1", "kserve/0"}, names)
}

// pipelines.Engines lists exactly the engines that are made here.
func TestTableOfEnginesIsThatOfDeclarations(t *testing.T) {
	var made, known []string
	for _, e := range Engines(EngineOptions{}) {
		made = append(made, e.Name())
	}
	for _, e := range pipelines.Engines() {
		known = append(known, e.Name)
	}
	assert.ElementsMatch(t, made, known)
	plain, _ := pipelines.EngineNamed(executors.EngineNetwork)
	assert.Contains(t, plain.Help, fmt.Sprintf("%d operators", len(onnx.Operators())))
}
