package functions

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
	page := sheet{height: int(image.Shape[1]), width: int(image.Shape[2])}
	for channel := range page.planes {
		page.planes[channel] = c.floats(image, c.source(channel))
	}
	one := len(lines.Data) / n
	for i := range n {
		q, ok := readQuad(quads, i)
		if !ok {
			return nil, fmt.Errorf("corners %d of the quads are not finite", i+1)
		}
		put(widths.Data, i, float32(c.line(page, q, lines.Data[i*one:(i+1)*one])))
	}
	return []wire.Tensor{lines, widths}, nil
}

// sheet is a page as planes of numbers.
type sheet struct {
	height, width int
	planes        [3][]float32 // in the order of the network's channels
}

// finest bounds the samples that are averaged into one pixel, along each side.
const finest = 4

// line writes one line and returns its width.
func (c lineCutter) line(page sheet, q quad, out []byte) int {
	high := max(q.height(), 1)
	wide := int(math.Round(q.along().length() * float64(c.height) / high))
	wide = min(max(wide, 1), c.width)
	fine := min(max(int(math.Round(high/float64(c.height))), 1), finest)
	share := 1 / float32(fine*fine)
	for y := range c.height {
		for x := range wide {
			var sum [3]float32
			for sy := range fine {
				v := (float64(y) + (float64(sy)+0.5)/float64(fine)) / float64(c.height)
				left, right := towards(q[0], q[3], v), towards(q[1], q[2], v)
				for sx := range fine {
					u := (float64(x) + (float64(sx)+0.5)/float64(fine)) / float64(wide)
					page.add(towards(left, right, u), &sum)
				}
			}
			for channel := range 3 {
				put(out, (channel*c.height+y)*c.width+x, c.value(channel, sum[channel]*share))
			}
		}
	}
	return wide
}

// add adds the page's colour at a place.
func (s sheet) add(p point, to *[3]float32) {
	x := min(max(p.x-0.5, 0), float64(s.width-1))
	y := min(max(p.y-0.5, 0), float64(s.height-1))
	x0, y0 := int(x), int(y)
	x1, y1 := min(x0+1, s.width-1), min(y0+1, s.height-1)
	wx, wy := float32(x-float64(x0)), float32(y-float64(y0))
	for channel, plane := range s.planes {
		upper := mix(plane[y0*s.width+x0], plane[y0*s.width+x1], wx)
		lower := mix(plane[y1*s.width+x0], plane[y1*s.width+x1], wx)
		to[channel] += mix(upper, lower, wy)
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
