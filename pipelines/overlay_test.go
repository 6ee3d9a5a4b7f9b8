package pipelines

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is wrong with an overlay is reported at the attribute.
func TestFaultsOfOverlays(t *testing.T) {
	p := Pipeline{
		Stream:  Stream{Rate: 5, Count: 8},
		Inputs:  []Port{{Name: "frame", Datatype: "FP32", Shape: []int64{3, 96, 96}}, {Name: "file", Datatype: "BYTES", Shape: []int64{1}}, {Name: "boxes", Datatype: "FP32", Shape: []int64{8, 4}}, {Name: "x", Datatype: "FP32", Shape: []int64{8}}},
		Outputs: []Output{{Name: "ids"}, {Name: "found"}},
	}
	none, mixed := Pipeline{Inputs: p.Inputs}, Pipeline{Inputs: p.Inputs, Kinds: []Stream{{Kind: "fast", Rate: 5, Count: 8}}}
	for name, c := range map[string]struct {
		of   Overlay
		in   *Pipeline
		want []string
	}{
		"fine":                  {Overlay{Frame: "frame", Boxes: "boxes", Labels: []string{"ids"}, Corners: CornersXYWH, Unit: UnitFractions, Console: true}, &p, nil},
		"a file, and an output": {Overlay{Frame: "file", Boxes: "found"}, &p, nil},
		"a frame alone":         {Overlay{Frame: "frame"}, &p, nil},
		"kinds of streams":      {Overlay{Frame: "frame"}, &mixed, nil},
		"no streams":            {Overlay{Frame: "frame"}, &none, []string{"frame: Overlay without streams"}},
		"no frame":              {Overlay{Frame: "fram"}, &p, []string{"frame: No such input"}},
		"an output as frame":    {Overlay{Frame: "ids"}, &p, []string{"frame: No such input"}},
		"no picture":            {Overlay{Frame: "x"}, &p, []string{"frame: Not a picture"}},
		"no such boxes":         {Overlay{Frame: "frame", Boxes: "box"}, &p, []string{"boxes: No such tensor"}},
		"boxes of one":          {Overlay{Frame: "frame", Boxes: "x"}, &p, []string{"boxes: No boxes"}},
		"no such label":         {Overlay{Frame: "frame", Boxes: "found", Labels: []string{"ids", "idss"}}, &p, []string{"labels: No such tensor"}},
		"labels of nothing":     {Overlay{Frame: "frame", Labels: []string{"ids"}}, &p, []string{"labels: Labels without boxes"}},
		"words":                 {Overlay{Frame: "frame", Corners: "xy", Unit: "metres"}, &p, []string{"corners: Unknown corners", "unit: Unknown unit"}},
	} {
		var got []string
		for _, f := range c.of.Faults(c.in) {
			got = append(got, f.Attribute+": "+f.Summary)
		}
		assert.Equal(t, c.want, got, name)
		assert.False(t, c.of.IsZero())
	}
	assert.True(t, Overlay{}.IsZero())
}

func TestShapesOfFrames(t *testing.T) {
	for _, c := range []struct {
		of            Port
		height, width int
		planes, ok    bool
	}{
		{Port{Datatype: "UINT8", Shape: []int64{3, 4, 5}}, 4, 5, true, true},
		{Port{Datatype: "FP32", Shape: []int64{4, 5, 3}}, 4, 5, false, true},
		{Port{Datatype: "FP32", Shape: []int64{-1, -1, 3}}, 0, 0, false, true},
		{Port{Datatype: "FP32", Shape: []int64{3, -1, -1}, Typical: []int64{3, 8, 9}}, 8, 9, true, true},
		{Port{Datatype: "FP32", Shape: []int64{3, 0, 5}}, 0, 0, false, false},
		{Port{Datatype: "FP32", Shape: []int64{1, 4, 5}}, 0, 0, false, false},
		{Port{Datatype: "INT64", Shape: []int64{3, 4, 5}}, 0, 0, false, false},
		{Port{Datatype: "UINT8", Shape: []int64{3, 4}}, 0, 0, false, false},
	} {
		height, width, planes, ok := c.of.FrameShape()
		assert.Equal(t, []any{c.height, c.width, c.planes, c.ok}, []any{height, width, planes, ok}, "%v", c.of)
	}
}
