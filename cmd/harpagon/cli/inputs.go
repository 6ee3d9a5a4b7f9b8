package cli

import (
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png" // pictures that --input reads
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	hclv2 "github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/arrivals"
	"github.com/harpagon/harpagon/pipelines/files"
	"github.com/harpagon/harpagon/pipelines/hcl"
	"github.com/harpagon/harpagon/scheduler/simulate"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire"
)

// maxInput bounds an input file.
const maxInput = 256 << 20

// readInput makes the tensor of an input from a file: a picture (PNG, JPEG) for
// inputs of shape [channels, height, width]; JSON with datatype, shape and data
// as the Open Inference Protocol writes them, or only the data; or the raw
// little-endian elements.
func readInput(port pipelines.Port, path string) (sdk.Tensor, error) {
	info, err := os.Stat(path)
	if err != nil {
		return sdk.Tensor{}, err
	}
	if info.Size() > maxInput {
		return sdk.Tensor{}, fmt.Errorf("%s has %d bytes; an input has at most %d", path, info.Size(), int64(maxInput))
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".png", ".jpg", ".jpeg":
		return readPicture(port, path)
	case ".json":
		return readJSON(port, path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return sdk.Tensor{}, err
	}
	shape := port.Shape
	if slices.Contains(shape, -1) {
		if shape, err = files.SampleShape(port, path); err != nil {
			return sdk.Tensor{}, err
		}
	}
	t := wire.Tensor{Datatype: port.Datatype, Shape: shape, Data: raw}
	if err := t.Validate(); err != nil {
		return t, fmt.Errorf("%s holds no %s of shape %v: %w", path, port.Datatype, port.Shape, err)
	}
	return t, nil
}

// readPicture gives planes of red, green and blue: 0 to 1 as FP32, 0 to 255 as
// UINT8.
func readPicture(port pipelines.Port, path string) (sdk.Tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return sdk.Tensor{}, err
	}
	defer f.Close()
	img, _, err := image.Decode(f)
	if err != nil {
		return sdk.Tensor{}, fmt.Errorf("%s: %w", path, err)
	}
	h, w := img.Bounds().Dy(), img.Bounds().Dx()
	shape := []int64{3, int64(h), int64(w)}
	fits := len(port.Shape) == 3
	for i := 0; fits && i < 3; i++ {
		fits = port.Shape[i] == -1 || port.Shape[i] == shape[i]
	}
	if !fits || port.Datatype != wire.FP32 && port.Datatype != wire.Uint8 {
		return sdk.Tensor{}, fmt.Errorf("%s is a picture of %d by %d pixels; input %q takes %s of shape %v", path, w, h, port.Name, port.Datatype, port.Shape)
	}
	floats, bytes := make([]float32, 3*h*w), make([]byte, 3*h*w)
	for y := range h {
		for x := range w {
			r, g, b, _ := img.At(img.Bounds().Min.X+x, img.Bounds().Min.Y+y).RGBA()
			for k, v := range [3]uint32{r, g, b} {
				at := (k*h+y)*w + x
				floats[at], bytes[at] = float32(v)/0xffff, byte(v>>8)
			}
		}
	}
	if port.Datatype == wire.Uint8 {
		return sdk.Uint8(bytes, shape...), nil
	}
	return sdk.Float32(floats, shape...), nil
}

func readJSON(port pipelines.Port, path string) (sdk.Tensor, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return sdk.Tensor{}, err
	}
	in := struct {
		Datatype string          `json:"datatype"`
		Shape    []int64         `json:"shape"`
		Data     json.RawMessage `json:"data"`
	}{Datatype: port.Datatype, Shape: port.Shape}
	if err := json.Unmarshal(raw, &in); err != nil {
		in.Data = raw // only the data
	}
	var flat []any
	var nested any
	if err := json.Unmarshal(in.Data, &nested); err != nil {
		return sdk.Tensor{}, fmt.Errorf("%s: %w", path, err)
	}
	flatten(nested, &flat)
	if in.Datatype == "BYTES" {
		texts := make([]string, len(flat))
		for i, v := range flat {
			texts[i] = fmt.Sprint(v)
		}
		return sdk.Strings(texts, in.Shape...), nil
	}
	numbers := make([]float32, len(flat))
	for i, v := range flat {
		x, ok := v.(float64)
		if !ok {
			return sdk.Tensor{}, fmt.Errorf("%s: element %d is no number", path, i)
		}
		numbers[i] = float32(x)
	}
	if in.Datatype != wire.FP32 {
		return sdk.Tensor{}, fmt.Errorf("%s: JSON files give FP32 and BYTES; for %s write the raw elements to a file", path, in.Datatype)
	}
	t := sdk.Float32(numbers, in.Shape...)
	return t, t.Validate()
}

func flatten(v any, to *[]any) {
	list, ok := v.([]any)
	if !ok {
		*to = append(*to, v)
		return
	}
	for _, e := range list {
		flatten(e, to)
	}
}

// randomInput makes a tensor that fits the input, for load without files: of the
// typical shape where one is declared.
func randomInput(port pipelines.Port, rng *rand.Rand) sdk.Tensor {
	n := 1
	shape := slices.Clone(port.Shape)
	for i, d := range shape {
		switch {
		case d < 0 && len(port.Typical) == len(shape):
			shape[i] = port.Typical[i]
		case d < 0:
			shape[i] = 1
		}
		n *= int(shape[i])
	}
	switch port.Datatype {
	case wire.FP32:
		values := make([]float32, n)
		for i := range values {
			values[i] = rng.Float32()
		}
		return sdk.Float32(values, shape...)
	case "BYTES":
		return sdk.Strings(make([]string, n), shape...)
	}
	return wire.Tensor{Datatype: port.Datatype, Shape: shape, Data: make([]byte, n*wire.Size(port.Datatype))}
}

// shown is a tensor as text: its elements where they are few.
func shown(t sdk.Tensor) string {
	const most = 24
	var words []string
	if texts, err := t.Strings(); err == nil {
		for _, s := range texts {
			words = append(words, strconv.Quote(s))
		}
	} else if floats, err := t.Float32s(); err == nil {
		for _, f := range floats {
			words = append(words, strconv.FormatFloat(math.Round(float64(f)*1e4)/1e4, 'g', -1, 32))
		}
	} else {
		return fmt.Sprintf("%s %v, %d bytes", t.Datatype, t.Shape, len(t.Data))
	}
	rest := ""
	if len(words) > most {
		rest = fmt.Sprintf(" ... (%d more)", len(words)-most)
		words = words[:most]
	}
	return fmt.Sprintf("%s %v: %s%s", t.Datatype, t.Shape, strings.Join(words, " "), rest)
}

// mostItems bounds the made-up items of a query, for memory's sake.
const mostItems = 1 << 20

// query makes up a query of the size in --size.
func (f *inferFlags) query(ports []pipelines.Port) (sdk.Inputs, error) {
	if len(f.inputs) > 0 {
		return nil, fmt.Errorf("--size makes inputs up, and --input reads them: give one of the two")
	}
	return madeUp(ports, f.size, rand.New(rand.NewPCG(1, 1)))
}

// madeUp is a query of random items.
func madeUp(ports []pipelines.Port, size int, rng *rand.Rand) (sdk.Inputs, error) {
	if size < 1 || size > mostItems {
		return nil, fmt.Errorf("a query has between 1 and %d items, not %d", mostItems, size)
	}
	inputs := sdk.Inputs{}
	for _, p := range ports {
		if len(p.Shape) == 0 || p.Shape[0] != -1 {
			return nil, fmt.Errorf("input %q has the shape %v: only pools take queries of any size", p.Name, p.Shape)
		}
		p.Shape = append([]int64{int64(size)}, p.Shape[1:]...)
		inputs[p.Name] = randomInput(p, rng)
	}
	return inputs, nil
}

// queries draws the requests of a load whose queries have the sizes of a mix:
// each size in proportion to its weight, in an order that the seed shuffles.
func (f *loadFlags) queries(d *Deps, pool string, ports []pipelines.Port) ([]sdk.Inputs, error) {
	if len(f.inputs) > 0 {
		return nil, fmt.Errorf("--sizes makes inputs up, and --input reads them: give one of the two")
	}
	mix, err := readMix(d, f.sizes, pool)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(f.options.Seed, 2))
	kept := map[int]sdk.Inputs{}
	var all []sdk.Inputs
	due, total := 0.0, mix.Total()
	for _, s := range mix {
		if s.Weight <= 0 {
			continue
		}
		if kept[s.Size], err = madeUp(ports, s.Size, rng); err != nil {
			return nil, err
		}
		for due += s.Weight / total * queriesKept; len(all) < int(math.Round(due)); {
			all = append(all, kept[s.Size])
		}
	}
	rng.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	return all, nil
}

// queriesKept is how many queries a load goes through before it repeats them, so
// that a size that one in a thousand has occurs.
const queriesKept = 4096

// readMix reads a file of sizes, or the sizes of the pool in a declaration.
func readMix(d *Deps, path, name string) (pipelines.Mix, error) {
	if strings.HasSuffix(path, ".csv") {
		src, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--sizes: %w", err)
		}
		mix, diags := files.ReadSizes(path, src)
		if diags.HasErrors() {
			return nil, fmt.Errorf("--sizes: %w", diags)
		}
		return mix, nil
	}
	x := Declaration{Deps: d}
	doc, err := x.Document([]string{path})
	if err != nil {
		return nil, err
	}
	for _, p := range doc.Pools {
		if p.Name == name {
			return p.Mix(), nil
		}
	}
	return nil, fmt.Errorf("--sizes %s: it declares no pool %q", path, name)
}

// readArrivals reads --arrivals, and the file that it names. Findings in the file are shown
// at their places.
func readArrivals(d *Deps, text string) (arrivals.Process, error) {
	a, name, err := arrivals.Parse(text)
	if err != nil {
		return a, fmt.Errorf("--arrivals: %w", err)
	}
	if name == "" {
		return a, nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return a, fmt.Errorf("--arrivals %s: %w", text, err)
	}
	var diags hclv2.Diagnostics
	if a.Kind == arrivals.Replay {
		a.Stamps, diags = files.ReadStamps(name, src)
	} else {
		var trace pipelines.Trace
		trace, diags = files.ReadTrace(name, src)
		a.Trace = &trace
	}
	return a, reportFile(d, name, src, diags)
}

// readTimes reads a time that may be random, as the flag of that name was given; its file
// of percentiles included.
func readTimes(d *Deps, flag, text string) (simulate.Times, error) {
	t, name, err := simulate.ParseTimes(text)
	if err != nil {
		return t, fmt.Errorf("--%s %s: %w", flag, text, err)
	}
	if name == "" {
		return t, nil
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return t, fmt.Errorf("--%s %s: %w", flag, text, err)
	}
	percents, times, diags := files.ReadPercentiles(name, src)
	for i := range percents {
		t.Measured = append(t.Measured, simulate.Percentile{Percent: percents[i], Time: times[i]})
	}
	return t, reportFile(d, name, src, diags)
}

// reportFile writes what is wrong with a file that a flag names, with its lines.
func reportFile(d *Deps, name string, src []byte, diags hclv2.Diagnostics) error {
	if !diags.HasErrors() {
		return nil
	}
	config := &hcl.Config{Files: map[string]*hclv2.File{name: {Bytes: src}}}
	if err := hcl.WriteDiagnostics(d.Stderr, config, diags, d.Colours()); err != nil {
		return err
	}
	return ErrReported
}

// Share is the part of the total rate that a pipeline is offered.
func Share(rate, total float64, n int) float64 {
	if total > 0 {
		return rate / total
	}
	return 1 / float64(n)
}
