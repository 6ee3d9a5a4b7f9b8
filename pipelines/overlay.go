package pipelines

import (
	"fmt"
	"slices"
)

// Overlay declares what is drawn on the frames of a pipeline's streams, for people. The zero value
// draws nothing. Names are those of inputs and outputs of the pipeline.
type Overlay struct {
	Frame   string   `json:"frame"`             // the input that takes pictures; see FrameShape
	Boxes   string   `json:"boxes,omitempty"`   // an input or output of [n, 4]: where something is; empty draws none
	Corners string   `json:"corners,omitempty"` // what the four are, one of OverlayCorners; empty for the first
	Unit    string   `json:"unit,omitempty"`    // of the four, one of OverlayUnits; empty for the first
	Labels  []string `json:"labels,omitempty"`  // inputs or outputs with an element for each box, written beside it; a negative whole number is no box

	// Console shows the last frame of a stream on the console, to who has shown credentials for it.
	Console bool `json:"console,omitempty"`
}

// What the four numbers of a box are.
const (
	CornersXYXY   = "xyxy"   // left, top, right, bottom
	CornersXYWH   = "xywh"   // left, top, width, height
	CornersCXCYWH = "cxcywh" // the middle, width, height
)

// OverlayCorners are what Overlay.Corners may be; the first is the default.
func OverlayCorners() []string { return []string{CornersXYXY, CornersXYWH, CornersCXCYWH} }

// In what boxes are measured.
const (
	UnitPixels    = "pixels"    // of the frame
	UnitFractions = "fractions" // of its width and height
)

// OverlayUnits are what Overlay.Unit may be; the first is the default.
func OverlayUnits() []string { return []string{UnitPixels, UnitFractions} }

// OverlayPath is where an overlay block stands within its pipeline; see PlanPath.
const OverlayPath = ".{overlay}"

// IsZero reports whether nothing is drawn.
func (o Overlay) IsZero() bool {
	return o.Frame == "" && o.Boxes == "" && o.Corners == "" && o.Unit == "" && len(o.Labels) == 0 && !o.Console
}

// FrameShape reports how an input takes frames of a video: raw pixels, FP32 from 0 to 1 or UINT8, as [3,
// height, width] (planes) or [height, width, 3]; height and width are 0 where they vary. Not ok where it
// takes none; an input of BYTES takes files.
func (p Port) FrameShape() (height, width int, planes, ok bool) {
	shape := p.Shape
	if len(p.Typical) > 0 {
		shape = p.Typical
	}
	if len(shape) != 3 || p.Datatype != "FP32" && p.Datatype != "UINT8" {
		return 0, 0, false, false
	}
	size := func(n int64) int { return int(max(n, 0)) }
	switch {
	case shape[0] == 3 && shape[1] != 0 && shape[2] != 0:
		return size(shape[1]), size(shape[2]), true, true
	case shape[2] == 3 && shape[0] != 0 && shape[1] != 0:
		return size(shape[0]), size(shape[1]), false, true
	}
	return 0, 0, false, false
}

// Faults are what is wrong with an overlay of p.
func (o Overlay) Faults(p *Pipeline) []Fault {
	var all []Fault
	add := func(attribute, summary, format string, args ...any) {
		all = append(all, Fault{attribute, summary, fmt.Sprintf(format, args...)})
	}
	if len(p.StreamKinds()) == 0 {
		add("frame", "Overlay without streams", "An overlay is drawn on frames of streams: declare a stream block, or take the overlay out.")
	}
	var inputs, names []string
	for _, in := range p.Inputs {
		inputs = append(inputs, in.Name)
	}
	names = slices.Clone(inputs)
	for _, out := range p.Outputs {
		names = append(names, out.Name)
	}
	switch i := slices.Index(inputs, o.Frame); {
	case i < 0:
		add("frame", "No such input", "frame is the input that takes pictures, and there is no input %q.%s", o.Frame, Suggest(o.Frame, inputs))
	default:
		in := p.Inputs[i]
		if _, _, _, ok := in.FrameShape(); !ok && in.Datatype != "BYTES" {
			add("frame", "Not a picture", "Input %q takes no pictures: these are of shape [3, height, width] or [height, width, 3], of FP32 from 0 to 1 or UINT8, or of BYTES for JPEG and PNG.", o.Frame)
		}
	}
	known := func(attribute, name string) {
		if !slices.Contains(names, name) {
			add(attribute, "No such tensor", "%s names inputs or outputs of the pipeline, and there is no %q.%s", attribute, name, Suggest(name, names))
		}
	}
	if o.Boxes != "" {
		known("boxes", o.Boxes)
	}
	if i := slices.Index(inputs, o.Boxes); i >= 0 {
		if s := p.Inputs[i].Shape; len(s) != 2 || s[1] != 4 {
			add("boxes", "No boxes", "Boxes are of shape [n, 4], and input %q is of %v.", o.Boxes, s)
		}
	}
	for _, name := range o.Labels {
		known("labels", name)
	}
	if len(o.Labels) > 0 && o.Boxes == "" {
		add("labels", "Labels without boxes", "labels are written beside boxes: say with boxes where these are.")
	}
	if o.Corners != "" && !slices.Contains(OverlayCorners(), o.Corners) {
		add("corners", "Unknown corners", `corners is what the four numbers of a box are: "xyxy", "xywh" or "cxcywh".%s`, Suggest(o.Corners, OverlayCorners()))
	}
	if o.Unit != "" && !slices.Contains(OverlayUnits(), o.Unit) {
		add("unit", "Unknown unit", `unit is in what boxes are measured: "pixels", or "fractions" of the frame.%s`, Suggest(o.Unit, OverlayUnits()))
	}
	return all
}
