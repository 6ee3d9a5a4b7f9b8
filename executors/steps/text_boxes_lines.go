package steps

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// TextBoxes finds lines of text in the probability map of a segmentation
// network of the "differentiable binarization" kind (Liao et al. 2020), which
// learns regions that are shrunk from the text's outline.
//
//	map     FP32 [1, H, W]: the probability of text, by pixel
//	scale   FP32 []: map pixels per pixel of the page, as Letterbox gives it
//	quads   FP32 [N, 8]: corners x, y of a rectangle at any angle, in page pixels,
//	        upper left first and clockwise as a reader sees it
//	scores  FP32 [N]: mean probability
//
// Pixels above threshold that touch, corners included, are one region; its
// rectangle of least area is grown on every side by area·grow/perimeter, which
// undoes the shrinking. The rows are in reading order.
//
// Parameters:
//
//	threshold  of a pixel, 0 to 1; default 0.3
//	score      least mean probability of a region, 0 to 1; default 0.6
//	grow       default 1.5
//	least      shortest side of a region, in map pixels; default 3
//	max        most regions, the likeliest; 1 to 4096; default 256
func TextBoxes() Function {
	return Function{Doc: "lines of text in a probability map", Prepare: prepareTextBoxes}
}

type textFinder struct {
	threshold, score, grow, least float64
	max                           int
}

func prepareTextBoxes(p *Parameters) (Step, error) {
	f := textFinder{
		threshold: p.Number("threshold", 0.3, 0, 1), score: p.Number("score", 0.6, 0, 1),
		grow: p.Number("grow", 1.5, 0, 10), least: p.Number("least", 3, 0, 1e4), max: p.Whole("max", 256, 1, 4096),
	}
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{fp32("map", 1, -1, -1), fp32("scale")},
			Outputs: []pipelines.Port{fp32("quads", -1, 8), fp32("scores", -1)},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			scale := float64(at(inputs[1].Data, 0))
			if !(scale > 0) {
				return nil, fmt.Errorf("the scale is %v; it must be above 0", scale)
			}
			return f.find(inputs[0], scale), nil
		},
		Sample: sampleTextMap,
	}, nil
}

// region is a set of pixels that touch. Of each of its rows, ends are the outer
// corners of the outermost pixels.
type region struct {
	sum  float64
	n    int
	ends []point
}

func (f textFinder) find(t wire.Tensor, scale float64) []wire.Tensor {
	type found struct {
		quad  quad
		score float64
	}
	var all []found
	for _, r := range f.regions(t) {
		score := r.sum / float64(r.n)
		if score < f.score {
			continue
		}
		q := smallest(hull(r.ends))
		w, h := q.along().length(), q.height()
		if min(w, h) < f.least {
			continue
		}
		q = q.grown(w * h * f.grow / (2 * (w + h))).oriented()
		for k := range q {
			q[k] = q[k].times(1 / scale)
		}
		all = append(all, found{q, score})
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.score, a.score) })
	all = all[:min(len(all), f.max)]
	quads := make([]quad, len(all))
	for i := range all {
		quads[i] = all[i].quad
	}
	ordered, scores := make([]quad, len(all)), blank(int64(len(all)))
	for to, from := range readingOrder(quads) {
		ordered[to] = quads[from]
		put(scores.Data, to, float32(all[from].score))
	}
	return []wire.Tensor{quadTensor(ordered), scores}
}

// regions labels what touches, by a flood from every pixel not yet seen.
func (f textFinder) regions(t wire.Tensor) []region {
	h, w := int(t.Shape[1]), int(t.Shape[2])
	seen := make([]bool, h*w)
	is := func(i int) bool { return float64(at(t.Data, i)) > f.threshold }
	var all []region
	var stack []int
	for start := range seen {
		if seen[start] || !is(start) {
			continue
		}
		r := region{}
		rows := map[int][2]int{}
		seen[start], stack = true, append(stack, start)
		for len(stack) > 0 {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			y, x := i/w, i%w
			r.sum += float64(at(t.Data, i))
			r.n++
			row, known := rows[y]
			if !known {
				row = [2]int{x, x}
			}
			rows[y] = [2]int{min(row[0], x), max(row[1], x)}
			for ny := max(y-1, 0); ny <= min(y+1, h-1); ny++ {
				for nx := max(x-1, 0); nx <= min(x+1, w-1); nx++ {
					if j := ny*w + nx; !seen[j] && is(j) {
						seen[j], stack = true, append(stack, j)
					}
				}
			}
		}
		for y, row := range rows {
			left, right := float64(row[0]), float64(row[1]+1)
			top, bottom := float64(y), float64(y+1)
			r.ends = append(r.ends, point{left, top}, point{left, bottom}, point{right, top}, point{right, bottom})
		}
		slices.SortFunc(r.ends, func(a, b point) int {
			return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y))
		})
		all = append(all, r)
	}
	return all
}

// Sides of the maps and pages that are measured with.
const (
	sampleSide = 640
	openLeast  = 64 // a smaller side stands for an unknown one
)

// sampleTextMap is a page with a line of text every 40 pixels.
func sampleTextMap(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	h, w := int(shapes[0][1]), int(shapes[0][2])
	if h < openLeast || w < openLeast {
		h, w = sampleSide, sampleSide
	}
	t, scale := blank(1, int64(h), int64(w)), blank()
	for y := range h {
		for x := range w {
			p := rng.Float32() * 0.2
			if y%40 >= 15 && y%40 < 27 && x > w/10 && x < w*9/10 {
				p = 0.8 + p
			}
			put(t.Data, y*w+x, p)
		}
	}
	put(scale.Data, 0, 1)
	return []wire.Tensor{t, scale}
}

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
