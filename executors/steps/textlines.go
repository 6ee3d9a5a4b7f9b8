package steps

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// TextLines cuts lines of text out of a page, turned level and scaled to one
// height, and makes them into a network's input. A line that is too long for
// the width is squeezed into it; the rest of a shorter one is zero.
//
//	image   FP32 or UINT8 [3, H, W]: red, green and blue
//	quads   FP32 [N, 8]: corners x, y, as TextBoxes gives them
//	lines   FP32 [N, 3, height, width]
//	widths  FP32 [N]: how much of the width a line takes
//
// Between pixels the page is interpolated; outside it, its edge continues. What
// is shrunk is averaged.
//
// Parameters:
//
//	width, height    of a line, 1 to 4096; required
//	max              most lines in one request, 1 to 4096; default 256
//	mean, deviation, order, datatype, gain  as for Letterbox
func TextLines() Function {
	return Function{Doc: "lines of text cut out of a page, level and of one size", Prepare: prepareTextLines}
}

type lineCutter struct {
	normal
	height, width, most int
}

func prepareTextLines(p *Parameters) (Step, error) {
	c := lineCutter{
		width: p.Whole("width", 1, 1, maxSide), height: p.Whole("height", 1, 1, maxSide),
		most: p.Whole("max", 256, 1, 4096), normal: readNormal(p),
	}
	p.Need("width", "height")
	image := c.port("image")
	image.Shape[0] = 3
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{image, fp32("quads", -1, 8)},
			Outputs: []pipelines.Port{fp32("lines", -1, 3, int64(c.height), int64(c.width)), fp32("widths", -1)},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			return c.cut(inputs[0], inputs[1])
		},
		Sample: c.sample,
	}, nil
}

func (c lineCutter) cut(image, quads wire.Tensor) ([]wire.Tensor, error) {
	n := int(quads.Shape[0])
	if n > c.most {
		return nil, fmt.Errorf("%d lines where max = %d", n, c.most)
	}
	if n > 0 && count(image.Shape) == 0 {
		return nil, fmt.Errorf("the image of shape %v has no pixels", image.Shape)
	}
	lines, widths := blank(int64(n), 3, int64(c.height), int64(c.width)), blank(int64(n))
	if n == 0 {
		return []wire.Tensor{lines, widths}, nil
	}
	page := sheet{lineCutter: c, height: int(image.Shape[1]), width: int(image.Shape[2]), data: image.Data}
	one := len(lines.Data) / n
	for i := range n {
		q, ok := readQuad(quads, i)
		if !ok {
			return nil, fmt.Errorf("corners %d of the quads are not finite", i+1)
		}
		put(widths.Data, i, float32(page.line(q, lines.Data[i*one:(i+1)*one])))
	}
	return []wire.Tensor{lines, widths}, nil
}

// finest bounds the samples that are averaged into one pixel, along each side.
const finest = 4

// sheet is a page that lines are cut out of.
type sheet struct {
	lineCutter
	height, width int // of the page; the line's are the cutter's
	data          []byte
}

// line writes one line and returns its width.
func (s *sheet) line(q quad, out []byte) int {
	c := &s.lineCutter
	high := max(q.height(), 1)
	wide := int(math.Round(q.along().length() * float64(c.height) / high))
	wide = min(max(wide, 1), c.width)
	fine := min(max(int(math.Round(high/float64(c.height))), 1), finest)
	sums := make([][3]float32, wide)
	for y := range c.height {
		clear(sums)
		for sy := range fine {
			v := (float64(y) + (float64(sy)+0.5)/float64(fine)) / float64(c.height)
			left, right := towards(q[0], q[3], v), towards(q[1], q[2], v)
			step := right.minus(left).times(1 / float64(wide*fine))
			s.run(left.plus(step.times(0.5)), step, fine, sums)
		}
		for channel := range 3 {
			row := out[4*(channel*c.height+y)*c.width:]
			for x := range sums {
				put(row, x, c.value(channel, sums[x][channel]/float32(fine*fine)))
			}
		}
	}
	return wide
}

// run adds the page's colours along a straight way, fine samples to a sum.
func (s *sheet) run(p, step point, fine int, sums [][3]float32) {
	right, low := float64(s.width-1), float64(s.height-1)
	for x := range sums {
		for range fine {
			px, py := min(max(p.x-0.5, 0), right), min(max(p.y-0.5, 0), low)
			x0, y0 := int(px), int(py)
			at := y0*s.width + x0
			across, down := 0, 0
			if x0+1 < s.width {
				across = 1
			}
			if y0+1 < s.height {
				down = s.width
			}
			s.add(at, across, down, float32(px-float64(x0)), float32(py-float64(y0)), &sums[x])
			p.x, p.y = p.x+step.x, p.y+step.y
		}
	}
}

// add adds the colour between four pixels.
func (s *sheet) add(i, across, down int, wx, wy float32, to *[3]float32) {
	area := s.height * s.width
	for channel := range to {
		k := s.source(channel)*area + i
		var a, b, c, d float32
		if s.datatype == wire.Uint8 {
			a, b = float32(s.data[k]), float32(s.data[k+across])
			c, d = float32(s.data[k+down]), float32(s.data[k+down+across])
		} else {
			a, b = at(s.data, k), at(s.data, k+across)
			c, d = at(s.data, k+down), at(s.data, k+down+across)
		}
		to[channel] += mix(mix(a, b, wx), mix(c, d, wx), wy)
	}
}

// sample is a page of noise with slightly slanted lines that fill the width.
func (c lineCutter) sample(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	quads := make([]quad, max(shapes[1][0], 1))
	for i := range quads {
		high := 16 + 16*rng.Float64()
		long := min(high*float64(c.width)/float64(c.height), 0.9*sampleSide)
		x, y := 10+20*rng.Float64(), float64(sampleSide)*rng.Float64()
		slant := point{long, long * 0.05 * (rng.Float64() - 0.5)}
		q := quad{{x, y}, {}, {}, {x, y + high}}
		q[1], q[2] = q[0].plus(slant), q[3].plus(slant)
		quads[i] = q
	}
	return []wire.Tensor{c.noise(sampleSide, sampleSide, rng), quadTensor(quads)}
}
