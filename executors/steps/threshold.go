package steps

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// Channels of a detection map.
const (
	channelScore = iota
	channelX
	channelY
	channelWidth
	channelHeight
	mapChannels
)

// ThresholdBoxes turns the map of a one-class detection network into boxes.
//
//	map     FP32 [5, H, W], or [H, W, 5] by layout: one box per cell
//	boxes   FP32 [N, 4]: x0, y0, x1, y1 in pixels, highest score first
//	scores  FP32 [N]: probabilities
//
// The network's contract, for the cell of row r and column c, with stride
// pixels between two cells:
//
//	channel 0     score of a box in this cell, a logit or a probability
//	channel 1, 2  dx, dy: centre = ((c + 0.5 + dx)·stride, (r + 0.5 + dy)·stride)
//	channel 3, 4  tw, th: width = exp(tw)·stride, height = exp(th)·stride;
//	              with size = "linear": width = tw·stride, height = th·stride
//
// A box is kept when its probability is at least threshold, unless it overlaps
// a kept box of a higher score by more than iou (area of the intersection over
// area of the union); of equal scores the earlier cell, by rows, is the higher.
// Boxes are cut at the image, which is W·stride by H·stride pixels, before that;
// an empty box, and a cell that holds something that is not a number, are no
// detection.
//
// Parameters:
//
//	stride     pixels between two cells; required
//	threshold  least probability, 0 to 1; default 0.5
//	iou        greatest overlap, 0 to 1; default 0.5
//	max        most boxes, 1 to 4096; default 64
//	score      "logit" (default) or "probability"
//	size       "log" (default) or "linear"
//	layout     "chw" (default) or "hwc"
func ThresholdBoxes() Function {
	return Function{Doc: "a detection network's map to boxes", Prepare: prepareThreshold}
}

// decoder holds the parameters of ThresholdBoxes.
type decoder struct {
	stride, threshold, iou float64
	max                    int
	logit, log, planes     bool
}

func prepareThreshold(p *Parameters) (Step, error) {
	d := decoder{
		stride:    p.Number("stride", 1, 1e-3, 1e6),
		threshold: p.Number("threshold", 0.5, 0, 1),
		iou:       p.Number("iou", 0.5, 0, 1),
		max:       p.Whole("max", 64, 1, 4096),
		logit:     p.Choice("score", "logit", "probability") == "logit",
		log:       p.Choice("size", "log", "linear") == "log",
		planes:    p.Choice("layout", "chw", "hwc") == "chw",
	}
	p.Need("stride")
	input := fp32("map", mapChannels, -1, -1)
	if !d.planes {
		input = fp32("map", -1, -1, mapChannels)
	}
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{input},
			Outputs: []pipelines.Port{fp32("boxes", -1, 4), fp32("scores", -1)},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			return d.answer(suppress(d.candidates(inputs[0]), d.iou, d.max)), nil
		},
		Sample: d.sample,
	}, nil
}

// box is a detection, in pixels.
type box struct {
	x0, y0, x1, y1, score float64
}

func (b box) area() float64 { return (b.x1 - b.x0) * (b.y1 - b.y0) }

// overlap is the area of the intersection over that of the union.
func (b box) overlap(o box) float64 {
	w := min(b.x1, o.x1) - max(b.x0, o.x0)
	h := min(b.y1, o.y1) - max(b.y0, o.y0)
	if w <= 0 || h <= 0 {
		return 0
	}
	return w * h / (b.area() + o.area() - w*h)
}

// candidates are the boxes above the threshold in the order of their cells.
func (d decoder) candidates(t wire.Tensor) []box {
	rows, columns := int(t.Shape[1]), int(t.Shape[2])
	if !d.planes {
		rows, columns = int(t.Shape[0]), int(t.Shape[1])
	}
	read := func(cell, channel int) float64 {
		if d.planes {
			return float64(at(t.Data, channel*rows*columns+cell))
		}
		return float64(at(t.Data, cell*mapChannels+channel))
	}
	var found []box
	for cell := range rows * columns {
		score := read(cell, channelScore)
		if d.logit {
			score = sigmoid(score)
		}
		if !(score >= d.threshold) {
			continue
		}
		x := (float64(cell%columns) + 0.5 + read(cell, channelX)) * d.stride
		y := (float64(cell/columns) + 0.5 + read(cell, channelY)) * d.stride
		w := d.extent(read(cell, channelWidth)) / 2
		h := d.extent(read(cell, channelHeight)) / 2
		b := box{
			x0: max(x-w, 0), y0: max(y-h, 0),
			x1: min(x+w, float64(columns)*d.stride), y1: min(y+h, float64(rows)*d.stride),
			score: score,
		}
		if b.x0 < b.x1 && b.y0 < b.y1 {
			found = append(found, b)
		}
	}
	return found
}

func (d decoder) extent(t float64) float64 {
	if d.log {
		t = math.Exp(t)
	}
	return t * d.stride
}

// suppress keeps at most n boxes: greedily the best that overlaps none of the
// kept ones by more than iou.
func suppress(all []box, iou float64, n int) []box {
	slices.SortStableFunc(all, func(a, b box) int { return cmp.Compare(b.score, a.score) })
	var kept []box
	for _, b := range all {
		if len(kept) == n {
			break
		}
		if !slices.ContainsFunc(kept, func(k box) bool { return k.overlap(b) > iou }) {
			kept = append(kept, b)
		}
	}
	return kept
}

func (d decoder) answer(kept []box) []wire.Tensor {
	boxes, scores := blank(int64(len(kept)), 4), blank(int64(len(kept)))
	for i, b := range kept {
		for j, x := range [4]float64{b.x0, b.y0, b.x1, b.y1} {
			put(boxes.Data, 4*i+j, float32(x))
		}
		put(scores.Data, i, float32(b.score))
	}
	return []wire.Tensor{boxes, scores}
}

// sample is a map on which about one cell in twenty is a detection.
func (d decoder) sample(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	t := blank(shapes[0]...)
	cells := count(t.Shape) / mapChannels
	for i := range count(t.Shape) {
		channel := i / max(cells, 1)
		if !d.planes {
			channel = i % mapChannels
		}
		x := rng.Float64() - 0.5
		if channel == channelScore {
			x = float64(rng.IntN(20)) / 20 // 0.95 in one cell of twenty
			if d.logit {
				x = 20*x - 18.5
			}
		}
		put(t.Data, i, float32(x))
	}
	return []wire.Tensor{t}
}
