package steps

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// maxSide bounds the sides of the images that Crop and Resize make.
const maxSide = 4096

// Crop cuts boxes out of an image and scales each to one size.
//
//	image  FP32 or UINT8 [C, H, W]
//	boxes  FP32 [N, 4]: x0, y0, x1, y1 in pixels, as ThresholdBoxes gives them
//	crops  FP32 [N, C, height, width]
//
// Pixel (i, j) of a crop is the image at the middle of its part of the box,
// interpolated between the four nearest pixels; outside the image its edge
// continues. A box must be finite with x0 <= x1 and y0 <= y1.
//
// Parameters:
//
//	width, height  of a crop, 1 to 4096; required
//	margin         share of the box's size that is added on each side; default 0
//	max            most boxes in one request, 1 to 4096; default 256
//	datatype       of the image: "FP32" (default) or "UINT8"
//	gain           every pixel is multiplied by it; default 1, or 1/255 for UINT8
func Crop() Function {
	return Function{Doc: "boxes of an image, scaled to one size", Prepare: prepareCrop}
}

func prepareCrop(p *Parameters) (Step, error) {
	width, height := p.Whole("width", 1, 1, maxSide), p.Whole("height", 1, 1, maxSide)
	margin := p.Number("margin", 0, -0.49, 10)
	most := p.Whole("max", 256, 1, 4096)
	from := readPixels(p)
	p.Need("width", "height")
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{from.port("image"), fp32("boxes", -1, 4)},
			Outputs: []pipelines.Port{fp32("crops", -1, -1, int64(height), int64(width))},
		},
		Call: func(ctx context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			n := min(inputs[1].Shape[0], int64(most)) * inputs[0].Shape[0] * int64(4*height*width)
			release, err := executors.ReserveMemory(ctx, n)
			if err != nil {
				return nil, err
			}
			defer release()
			crops, err := from.crop(inputs[0], inputs[1], margin, height, width, most)
			return []wire.Tensor{crops}, err
		},
		Sample: from.sample,
	}, nil
}

func (p pixels) crop(image, boxes wire.Tensor, margin float64, height, width, most int) (wire.Tensor, error) {
	n := int(boxes.Shape[0])
	if n > most {
		return wire.Tensor{}, fmt.Errorf("%d boxes where max = %d", n, most)
	}
	if n > 0 && count(image.Shape) == 0 {
		return wire.Tensor{}, fmt.Errorf("the image of shape %v has no pixels", image.Shape)
	}
	crops := blank(int64(n), image.Shape[0], int64(height), int64(width))
	one := len(crops.Data) / max(n, 1)
	for i := range n {
		var b [4]float64
		for j := range b {
			b[j] = float64(at(boxes.Data, 4*i+j))
		}
		if !sane(b) {
			return wire.Tensor{}, fmt.Errorf("box %d is %v, which is no x0, y0, x1, y1", i+1, b)
		}
		mx, my := margin*(b[2]-b[0]), margin*(b[3]-b[1])
		rows := line(b[1]-my, b[3]+my, height, int(image.Shape[1]))
		columns := line(b[0]-mx, b[2]+mx, width, int(image.Shape[2]))
		p.scale(image, rows, columns, crops.Data[i*one:(i+1)*one])
	}
	return crops, nil
}

// sane also excludes infinities: their difference is not a number.
func sane(b [4]float64) bool {
	return b[0] <= b[2] && b[1] <= b[3] && b[2]-b[0] < math.Inf(1) && b[3]-b[1] < math.Inf(1)
}

// sample is a random image with boxes of a quarter to half its sides.
func (p pixels) sample(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	image := wire.Tensor{Datatype: p.datatype, Shape: shapes[0], Data: make([]byte, count(shapes[0])*wire.Size(p.datatype))}
	for i := range count(image.Shape) {
		if p.datatype == wire.Uint8 {
			image.Data[i] = byte(rng.IntN(256))
		} else {
			put(image.Data, i, rng.Float32())
		}
	}
	boxes := blank(shapes[1]...)
	height, width := float32(image.Shape[1]), float32(image.Shape[2])
	for i := range int(boxes.Shape[0]) {
		x, y := rng.Float32()*width/2, rng.Float32()*height/2
		w, h := (1+rng.Float32())*width/4, (1+rng.Float32())*height/4
		for j, v := range [4]float32{x, y, x + w, y + h} {
			put(boxes.Data, 4*i+j, v)
		}
	}
	return []wire.Tensor{image, boxes}
}

// Resize scales an image to one size by the rule of Crop, with the whole image
// as the box: every pixel made is interpolated between the four nearest. With
// smooth, a pixel that is made by shrinking is the mean of all that lie around it,
// weighted by a triangle as wide as two of the new pixels, as training pipelines
// mostly do ("antialias").
//
//	image    FP32 or UINT8 [C, H, W]
//	resized  FP32 [C, height, width]
//
// Parameters:
//
//	width, height   1 to 4096; required
//	smooth          false (default) or true
//	datatype, gain  as for Crop
func Resize() Function {
	return Function{Doc: "an image, scaled", Prepare: prepareResize}
}

func prepareResize(p *Parameters) (Step, error) {
	width, height := p.Whole("width", 1, 1, maxSide), p.Whole("height", 1, 1, maxSide)
	smooth := p.Bool("smooth", false)
	from := readPixels(p)
	p.Need("width", "height")
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{from.port("image")},
			Outputs: []pipelines.Port{fp32("resized", -1, int64(height), int64(width))},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			image := inputs[0]
			if count(image.Shape) == 0 {
				return nil, fmt.Errorf("the image of shape %v has no pixels", image.Shape)
			}
			resized := blank(image.Shape[0], int64(height), int64(width))
			if smooth {
				from.smooth(image, height, width, resized.Data)
				return []wire.Tensor{resized}, nil
			}
			rows := line(0, float64(image.Shape[1]), height, int(image.Shape[1]))
			columns := line(0, float64(image.Shape[2]), width, int(image.Shape[2]))
			from.scale(image, rows, columns, resized.Data)
			return []wire.Tensor{resized}, nil
		},
	}, nil
}

// tap is where one row or column of a scaled image comes from: its value is
// that at first plus weight times the way from first to second.
type tap struct {
	first, second int
	weight        float32
}

// line spreads n samples evenly over low..high, each in the middle of its
// part, on a side of the image that has size pixels.
func line(low, high float64, n, size int) []tap {
	taps := make([]tap, n)
	last := float64(size - 1)
	for i := range taps {
		x := low + (float64(i)+0.5)*(high-low)/float64(n) - 0.5 // in units of pixel centres
		x = min(max(x, 0), last)
		first := math.Floor(x)
		taps[i] = tap{first: int(first), second: int(min(first+1, last)), weight: float32(x - first)}
	}
	return taps
}

// pixels states how the elements of an image become numbers: each times gain.
type pixels struct {
	datatype string
	gain     float32
}

// readPixels reads the parameters datatype and gain.
func readPixels(p *Parameters) pixels {
	datatype, usual := p.Choice("datatype", wire.FP32, wire.Uint8), 1.0
	if datatype == wire.Uint8 {
		usual = 1.0 / 255
	}
	return pixels{datatype: datatype, gain: float32(p.Number("gain", usual, -1e6, 1e6))}
}

func (p pixels) port(name string) pipelines.Port {
	return pipelines.Port{Name: name, Datatype: p.datatype, Shape: []int64{-1, -1, -1}}
}

// scale writes every channel of the image at the crossings of rows and columns.
func (p pixels) scale(image wire.Tensor, rows, columns []tap, out []byte) {
	height, width := int(image.Shape[1]), int(image.Shape[2])
	stride := width * wire.Size(p.datatype)
	upper, lower := make([]float32, len(columns)), make([]float32, len(columns))
	for channel := range int(image.Shape[0]) {
		plane := image.Data[channel*height*stride : (channel+1)*height*stride]
		for _, r := range rows {
			p.pick(plane[r.first*stride:], columns, upper)
			p.pick(plane[r.second*stride:], columns, lower)
			for i := range upper {
				put(out, i, mix(upper[i], lower[i], r.weight)*p.gain)
			}
			out = out[4*len(columns):]
		}
	}
}

// pick reads one row of pixels at the columns.
func (p pixels) pick(row []byte, columns []tap, out []float32) {
	if p.datatype == wire.Uint8 {
		for i, c := range columns {
			out[i] = mix(float32(row[c.first]), float32(row[c.second]), c.weight)
		}
		return
	}
	for i, c := range columns {
		out[i] = mix(at(row, c.first), at(row, c.second), c.weight)
	}
}

func mix(a, b, weight float32) float32 { return a + (b-a)*weight }

// floats is a channel of the picture, row by row.
func (p pixels) floats(image wire.Tensor, channel int) []float32 {
	area := int(image.Shape[1] * image.Shape[2])
	plane := make([]float32, area)
	if p.datatype == wire.Uint8 {
		for i, b := range image.Data[channel*area : (channel+1)*area] {
			plane[i] = float32(b)
		}
		return plane
	}
	for i := range plane {
		plane[i] = at(image.Data, channel*area+i)
	}
	return plane
}

// smooth scales every channel of the image by weighted means.
func (p pixels) smooth(image wire.Tensor, height, width int, out []byte) {
	rows, columns := spread(int(image.Shape[1]), height), spread(int(image.Shape[2]), width)
	for c := range int(image.Shape[0]) {
		for i, x := range shrink(p.floats(image, c), int(image.Shape[2]), rows, columns) {
			put(out, c*height*width+i, x*p.gain)
		}
	}
}
