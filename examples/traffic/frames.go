package traffic

import (
	"embed"
	"encoding/json"
	"fmt"
	"image/png"
	"path"
	"strings"

	"github.com/harpagon/harpagon/examples/canvas"
	"github.com/harpagon/harpagon/examples/traffic/scene"
	"github.com/harpagon/harpagon/wire"
)

//go:embed scenes traffic.hcl models/*.onnx
var files embed.FS

// Frame is one of the example's pictures.
type Frame struct {
	Name   string      // of the file
	Pixels wire.Tensor // FP32 [3, 96, 96], 0 to 1
	Truth  []scene.Object
}

// Frames reads the example's pictures, sorted by name, with the truth about
// them.
func Frames() ([]Frame, error) {
	names, err := files.ReadDir("scenes")
	if err != nil {
		return nil, err
	}
	truth := map[string][]scene.Object{}
	raw, err := files.ReadFile("scenes/truth.json")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &truth); err != nil {
		return nil, fmt.Errorf("traffic: truth.json: %w", err)
	}
	var frames []Frame
	for _, entry := range names {
		if !strings.HasSuffix(entry.Name(), ".png") {
			continue
		}
		f, err := files.Open(path.Join("scenes", entry.Name()))
		if err != nil {
			return nil, err
		}
		img, err := png.Decode(f)
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("traffic: %s: %w", entry.Name(), err)
		}
		pixels, h, w := canvas.Pixels(img)
		frames = append(frames, Frame{Name: entry.Name(), Pixels: wire.FromFloat32(pixels, 3, int64(h), int64(w)), Truth: truth[entry.Name()]})
	}
	return frames, nil
}

// Files holds the declaration, the networks and the pictures, so that a program
// can serve the example from wherever it runs.
func Files() embed.FS { return files }

// Found reads the pipeline's answer to one frame.
func Found(outputs map[string]wire.Tensor) ([]Vehicle, error) {
	boxes, err := outputs["boxes"].Float32s()
	if err != nil {
		return nil, fmt.Errorf("traffic: boxes: %w", err)
	}
	kinds, err := outputs["kinds"].Strings()
	if err != nil {
		return nil, fmt.Errorf("traffic: kinds: %w", err)
	}
	colours, err := outputs["colours"].Strings()
	if err != nil {
		return nil, fmt.Errorf("traffic: colours: %w", err)
	}
	if len(kinds) != len(colours) || len(boxes) != 4*len(kinds) {
		return nil, fmt.Errorf("traffic: %d kinds, %d colours and %d coordinates do not belong together", len(kinds), len(colours), len(boxes))
	}
	all := make([]Vehicle, len(kinds))
	for i := range all {
		all[i] = Vehicle{Kind: kinds[i], Colour: colours[i], Box: [4]float32(boxes[4*i : 4*i+4])}
	}
	return all, nil
}

// Describe reports what was found in one frame.
func Describe(outputs map[string]wire.Tensor) string {
	all, err := Found(outputs)
	if err != nil {
		return err.Error()
	}
	if len(all) == 0 {
		return "no vehicles"
	}
	words := make([]string, len(all))
	for i, v := range all {
		words[i] = fmt.Sprintf("%s %s at (%.0f,%.0f)-(%.0f,%.0f)", v.Colour, v.Kind, v.Box[0], v.Box[1], v.Box[2], v.Box[3])
	}
	noun := "vehicles"
	if len(all) == 1 {
		noun = "vehicle"
	}
	return fmt.Sprintf("%d %s: %s", len(all), noun, strings.Join(words, ", "))
}

// Drawn reports what the picture shows in truth.
func (f Frame) Drawn() string {
	words := make([]string, len(f.Truth))
	for i, o := range f.Truth {
		words[i] = fmt.Sprintf("%s %s at (%.0f,%.0f)-(%.0f,%.0f)", o.Colour, o.Kind, o.Box[0], o.Box[1], o.Box[2], o.Box[3])
		if o.Visible < 0.99 {
			words[i] += fmt.Sprintf(" (%.0f %% shows)", 100*o.Visible)
		}
	}
	return fmt.Sprintf("%d: %s", len(f.Truth), strings.Join(words, ", "))
}

// Count adds what was found in the picture to a report.
func (f Frame) Count(r *Report, found []Vehicle) { r.add(scene.Scene{Objects: f.Truth}, found) }
