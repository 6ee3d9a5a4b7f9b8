package cli

import (
	"encoding/json"
	"fmt"
	"image"

	"github.com/harpagon/harpagon/pipelines/files"

	_ "image/jpeg"

	// pictures that --input reads
	_ "image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/harpagon/harpagon/pipelines"
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
