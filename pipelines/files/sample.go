package files

import (
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"path/filepath"
	"slices"
	"strings"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
)

// maxSample bounds a sample in JSON, as much as a request may have.
const maxSample = 256 << 20

// SampleShape is the shape of the tensor that a file holds for an input: of a
// picture (PNG, JPEG) [3, height, width]; of JSON the shape that it states; of
// any other file, which holds raw little-endian elements, the shape of the input,
// one dimension of which may vary. A picture for an input of UINT8 [-1] counts as
// its bytes.
func SampleShape(in pipelines.Port, path string) ([]int64, error) {
	var shape []int64
	var err error
	switch ext := strings.ToLower(filepath.Ext(path)); {
	case (ext == ".png" || ext == ".jpg" || ext == ".jpeg") && !(in.Datatype == "UINT8" && len(in.Shape) == 1):
		shape, err = pictureShape(path, ext)
	case ext == ".json":
		shape, err = jsonShape(path)
	default:
		shape, err = rawShape(in, path)
	}
	if err != nil {
		return nil, err
	}
	if why := pipelines.Misfit(in.Shape, shape); why != "" {
		return nil, fmt.Errorf("%s has shape %v, but input %q takes %v: %s", path, shape, in.Name, in.Shape, why)
	}
	return shape, nil
}

func pictureShape(path, ext string) ([]int64, error) {
	f, _, err := osutil.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var c image.Config
	if ext == ".png" {
		c, err = png.DecodeConfig(f)
	} else {
		c, err = jpeg.DecodeConfig(f)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no picture: %w", path, err)
	}
	return []int64{3, int64(c.Height), int64(c.Width)}, nil
}

func jsonShape(path string) ([]int64, error) {
	raw, err := osutil.ReadFile(path, maxSample)
	if err != nil {
		return nil, err
	}
	var in struct {
		Shape []int64 `json:"shape"`
	}
	switch err := json.Unmarshal(raw, &in); {
	case errors.As(err, new(*json.SyntaxError)):
		return nil, fmt.Errorf("%s is no JSON: %w", path, err)
	case err != nil || in.Shape == nil:
		return nil, fmt.Errorf("%s states no shape; write it as {\"datatype\": ..., \"shape\": [...], \"data\": [...]}", path)
	}
	return in.Shape, nil
}

func rawShape(in pipelines.Port, path string) ([]int64, error) {
	info, err := osutil.StatFile(path)
	if err != nil {
		return nil, err
	}
	size := elementSize(in.Datatype)
	if size == 0 {
		return nil, fmt.Errorf("raw files give no %s; write JSON", in.Datatype)
	}
	n, open := int64(1), -1
	for i, d := range in.Shape {
		switch {
		case d > 0:
			n *= d
		case open >= 0:
			return nil, errors.New("a raw file does not determine its shape where more than one dimension varies; write JSON, or give typical instead")
		default:
			open = i
		}
	}
	shape := slices.Clone(in.Shape)
	if open >= 0 && n > 0 {
		shape[open] = info.Size() / (n * size)
		n *= shape[open]
	}
	if n*size != info.Size() {
		return nil, fmt.Errorf("%s has %d bytes, which is no %s of shape %v", path, info.Size(), in.Datatype, in.Shape)
	}
	return shape, nil
}

// elementSize is the bytes of one element; 0 where they vary or the datatype is
// unknown.
func elementSize(datatype string) int64 {
	switch datatype {
	case "BOOL", "UINT8", "INT8":
		return 1
	case "UINT16", "INT16", "FP16", "BF16":
		return 2
	case "UINT32", "INT32", "FP32":
		return 4
	case "UINT64", "INT64", "FP64":
		return 8
	}
	return 0
}
