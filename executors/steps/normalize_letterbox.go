package steps

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Normalize turns the pixels of a picture into a network's input.
//
//	image       FP32 or UINT8 [3, H, W]: red, green and blue
//	normalized  FP32 [3, H, W]: (pixel·gain - mean) / deviation
//
// Parameters: mean, deviation, order, datatype, gain, as for Letterbox.
func Normalize() Function {
	return Function{Doc: "a picture's pixels, shifted and scaled", Prepare: prepareNormalize}
}

func prepareNormalize(p *Parameters) (Step, error) {
	n := readNormal(p)
	image := n.port("image")
	image.Shape[0] = 3
	return Step{
		Signature: pipelines.Signature{Inputs: []pipelines.Port{image}, Outputs: []pipelines.Port{fp32("normalized", 3, -1, -1)}},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			in := inputs[0]
			out := blank(in.Shape...)
			area := int(in.Shape[1] * in.Shape[2])
			for c := range 3 {
				for i, x := range n.floats(in, n.source(c)) {
					put(out.Data, c*area+i, n.value(c, x))
				}
			}
			return []wire.Tensor{out}, nil
		},
	}, nil
}

// normal states how the three channels of a picture become a network's input:
// (pixel·gain - mean) / deviation, in the network's order.
type normal struct {
	pixels
	mean, deviation [3]float32 // by channel of the network
	reversed        bool       // the network takes blue, green, red
}

// readNormal reads the parameters datatype, gain, mean, deviation and order.
func readNormal(p *Parameters) normal {
	n := normal{pixels: readPixels(p), reversed: p.Choice("order", "rgb", "bgr") == "bgr"}
	copy(n.mean[:], p.channels("mean", 0, -1e6))
	copy(n.deviation[:], p.channels("deviation", 1, 1e-6))
	return n
}

// channels reads one number for all three channels, or a list of three.
func (p *Parameters) channels(name string, otherwise, low float64) []float32 {
	values := []any{otherwise}
	if value, given := p.read(name); given {
		values = []any{value}
		if list, ok := value.([]any); ok {
			values = list
		}
	}
	wrong := len(values) != 1 && len(values) != 3
	three := make([]float32, 3)
	for i := 0; !wrong && i < 3; i++ {
		x, ok := number(values[min(i, len(values)-1)])
		wrong = !ok || math.IsNaN(x) || x < low || x > 1e6
		three[i] = float32(x)
	}
	if wrong {
		p.Failf(name, "must be a number or three, each between %v and 1e6", low)
		return slices.Repeat([]float32{1}, 3)
	}
	return three
}

// source is the channel of the picture that fills channel c of the network.
func (n normal) source(c int) int {
	if n.reversed {
		return 2 - c
	}
	return c
}

func (n normal) value(c int, x float32) float32 {
	return (x*n.gain - n.mean[c]) / n.deviation[c]
}

// Letterbox brings a picture of any size onto a canvas of one size: shrunk
// where it is larger, never enlarged, in the upper left corner, and made into a
// network's input. The rest of the canvas is zero.
//
//	image   FP32 or UINT8 [3, H, W]: red, green and blue
//	canvas  FP32 [3, height, width]
//	scale   FP32 []: canvas pixels per pixel of the image, at most 1
//
// Parameters:
//
//	width, height    of the canvas, 1 to 4096; required
//	mean, deviation  one number, or one for each channel of the canvas: its
//	                 elements are (pixel·gain - mean) / deviation; default 0 and 1
//	order            "rgb" (default) or "bgr": channels of the canvas
//	datatype, gain   as for Crop
func Letterbox() Function {
	return Function{Doc: "a picture on a canvas of one size", Prepare: prepareLetterbox}
}

func prepareLetterbox(p *Parameters) (Step, error) {
	width, height := p.Whole("width", 1, 1, maxSide), p.Whole("height", 1, 1, maxSide)
	n := readNormal(p)
	p.Need("width", "height")
	image := n.port("image")
	image.Shape[0] = 3
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{image},
			Outputs: []pipelines.Port{fp32("canvas", 3, int64(height), int64(width)), fp32("scale")},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			return n.letterbox(inputs[0], height, width)
		},
		// A picture that fills the canvas, whatever the requested shape.
		Sample: func(_ [][]int64, rng *rand.Rand) []wire.Tensor {
			return []wire.Tensor{n.noise(height, width, rng)}
		},
	}, nil
}

func (n normal) letterbox(image wire.Tensor, height, width int) ([]wire.Tensor, error) {
	if count(image.Shape) == 0 {
		return nil, fmt.Errorf("the image of shape %v has no pixels", image.Shape)
	}
	h, w := int(image.Shape[1]), int(image.Shape[2])
	scale := min(1, float64(height)/float64(h), float64(width)/float64(w))
	rows := spread(h, max(int(float64(h)*scale), 1))
	columns := spread(w, max(int(float64(w)*scale), 1))
	canvas := blank(3, int64(height), int64(width))
	for c := range 3 {
		if scale == 1 && n.datatype == wire.Uint8 {
			n.place(c, image, canvas.Data[4*c*height*width:], width)
			continue
		}
		plane := n.floats(image, n.source(c))
		if scale < 1 {
			plane = shrink(plane, w, rows, columns)
		}
		for y := range rows {
			line := canvas.Data[4*(c*height+y)*width:]
			for x := range columns {
				put(line, x, n.value(c, plane[y*len(columns)+x]))
			}
		}
	}
	size := blank()
	put(size.Data, 0, float32(scale))
	return []wire.Tensor{canvas, size}, nil
}

// place writes a channel that keeps its size, by way of a table of the 256
// values that a pixel can have.
func (n normal) place(c int, image wire.Tensor, out []byte, width int) {
	var table [256]uint32
	for b := range table {
		table[b] = math.Float32bits(n.value(c, float32(b)))
	}
	h, w := int(image.Shape[1]), int(image.Shape[2])
	for y := range h {
		row := image.Data[(n.source(c)*h+y)*w:][:w]
		to := out[4*y*width:][:4*w]
		for x, b := range row {
			binary.LittleEndian.PutUint32(to[4*x:], table[b])
		}
	}
}

// share is what one sample of a shrunk line is made of: weights for the samples
// from first on.
type share struct {
	first   int
	weights []float32
}

// spread divides a line of from samples into to: each takes what lies around
// its middle, weighted by a triangle as wide as two of the new samples, or of the
// old ones where these are wider: then it interpolates.
func spread(from, to int) []share {
	all := make([]share, to)
	step := float64(from) / float64(to)
	reach := max(step, 1)
	for i := range all {
		middle := (float64(i)+0.5)*step - 0.5
		first := max(int(math.Ceil(middle-reach)), 0)
		last := min(int(math.Floor(middle+reach)), from-1)
		s, sum := share{first: first}, float32(0)
		for j := first; j <= last; j++ {
			w := float32(1 - math.Abs(float64(j)-middle)/reach)
			s.weights = append(s.weights, w)
			sum += w
		}
		for j := range s.weights {
			s.weights[j] /= sum
		}
		all[i] = s
	}
	return all
}

// shrink scales a plane, along the columns first.
func shrink(plane []float32, width int, rows, columns []share) []float32 {
	height := len(plane) / width
	narrow := make([]float32, height*len(columns))
	for y := range height {
		for x, s := range columns {
			sum := float32(0)
			for k, w := range s.weights {
				sum += w * plane[y*width+s.first+k]
			}
			narrow[y*len(columns)+x] = sum
		}
	}
	out := make([]float32, len(rows)*len(columns))
	for y, s := range rows {
		for k, w := range s.weights {
			line := narrow[(s.first+k)*len(columns):]
			for x := range columns {
				out[y*len(columns)+x] += w * line[x]
			}
		}
	}
	return out
}

// noise is a picture of random pixels.
func (n normal) noise(height, width int, rng *rand.Rand) wire.Tensor {
	t := wire.Tensor{Datatype: n.datatype, Shape: []int64{3, int64(height), int64(width)}}
	t.Data = make([]byte, 3*height*width*wire.Size(n.datatype))
	for i := range 3 * height * width {
		if n.datatype == wire.Uint8 {
			t.Data[i] = byte(rng.IntN(256))
		} else {
			put(t.Data, i, rng.Float32())
		}
	}
	return t
}
