package steps

import (
	"cmp"
	"context"
	"fmt"
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
	openLeast  = 64 // a smaller side stands for one that nobody knows
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
