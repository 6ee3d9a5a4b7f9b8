package steps

import (
	"math"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

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

// pixels says how the elements of an image become numbers: each times gain.
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
