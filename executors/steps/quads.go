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

// point is a place in an image, in pixels.
type point struct{ x, y float64 }

func (a point) plus(b point) point        { return point{a.x + b.x, a.y + b.y} }
func (a point) minus(b point) point       { return point{a.x - b.x, a.y - b.y} }
func (a point) times(f float64) point     { return point{a.x * f, a.y * f} }
func (a point) dot(b point) float64       { return a.x*b.x + a.y*b.y }
func (a point) cross(b point) float64     { return a.x*b.y - a.y*b.x }
func (a point) length() float64           { return math.Hypot(a.x, a.y) }
func (a point) finite() bool              { return !math.IsNaN(a.x+a.y) && !math.IsInf(a.x+a.y, 0) }
func (a point) across() point             { return point{-a.y, a.x} } // turned clockwise, y pointing down
func towards(a, b point, w float64) point { return a.plus(b.minus(a).times(w)) }

// quad is a rectangle at any angle around a line of text: its corners in the
// order upper left, upper right, lower right, lower left as a reader sees it.
type quad [4]point

func (q quad) middle() point   { return towards(q[0], q[2], 0.5) }
func (q quad) along() point    { return q[1].minus(q[0]) } // from the first letter to the last
func (q quad) height() float64 { return q[3].minus(q[0]).length() }

// turned is the same rectangle read upside down.
func (q quad) turned() quad { return quad{q[2], q[3], q[0], q[1]} }

// readQuad is row i of FP32 [N, 8].
func readQuad(t wire.Tensor, i int) (q quad, ok bool) {
	for k := range q {
		q[k] = point{float64(at(t.Data, 8*i+2*k)), float64(at(t.Data, 8*i+2*k+1))}
		if !q[k].finite() {
			return q, false
		}
	}
	return q, true
}

// quadTensor is FP32 [N, 8]: x and y of the corners.
func quadTensor(all []quad) wire.Tensor {
	t := blank(int64(len(all)), 8)
	for i, q := range all {
		for k, p := range q {
			put(t.Data, 8*i+2*k, float32(p.x))
			put(t.Data, 8*i+2*k+1, float32(p.y))
		}
	}
	return t
}

// hull is the convex hull of the points, in order around it (monotone chain,
// Andrew 1979). The points must be sorted by x, then y.
func hull(sorted []point) []point {
	if len(sorted) < 3 {
		return sorted
	}
	half := func(points []point) []point {
		var chain []point
		for _, p := range points {
			for len(chain) > 1 && chain[len(chain)-1].minus(chain[len(chain)-2]).cross(p.minus(chain[len(chain)-1])) <= 0 {
				chain = chain[:len(chain)-1]
			}
			chain = append(chain, p)
		}
		return chain[:len(chain)-1]
	}
	lower := half(sorted)
	reversed := slices.Clone(sorted)
	slices.Reverse(reversed)
	return append(lower, half(reversed)...)
}

// smallest is the rectangle of least area around a convex hull; one of its sides
// lies on a side of the hull.
func smallest(hull []point) quad {
	best, area := quad{}, math.Inf(1)
	for i, p := range hull {
		side := hull[(i+1)%len(hull)].minus(p)
		if side.length() == 0 {
			continue
		}
		u := side.times(1 / side.length())
		v := u.across()
		left, right, top, bottom := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
		for _, q := range hull {
			a, b := q.dot(u), q.dot(v)
			left, right, top, bottom = min(left, a), max(right, a), min(top, b), max(bottom, b)
		}
		if s := (right - left) * (bottom - top); s < area {
			corner := func(a, b float64) point { return u.times(a).plus(v.times(b)) }
			best, area = quad{corner(left, top), corner(right, top), corner(right, bottom), corner(left, bottom)}, s
		}
	}
	return best
}

// tall is how many times higher than wide a rectangle must be to be taken for a
// line that runs up or down the page.
const tall = 1.5

// oriented starts at the corner where a reader would: the line runs along the
// more level side, to the right, unless the other side is much longer; then it
// runs down.
func (q quad) oriented() quad {
	if a, b := q.along(), q[3].minus(q[0]); math.Abs(a.y) > math.Abs(a.x) && math.Abs(b.x) > 0 {
		q = quad{q[1], q[2], q[3], q[0]} // side 0 is now the more level one
	}
	if q.along().x < 0 {
		q = q.turned()
	}
	if q.height() > tall*q.along().length() {
		q = quad{q[1], q[2], q[3], q[0]}
	}
	return q
}

// grown moves every side out by d.
func (q quad) grown(d float64) quad {
	u, v := q.along(), q[3].minus(q[0])
	u, v = u.times(d/max(u.length(), 1e-9)), v.times(d/max(v.length(), 1e-9))
	return quad{
		q[0].minus(u).minus(v), q[1].plus(u).minus(v),
		q[2].plus(u).plus(v), q[3].minus(u).plus(v),
	}
}

// sameRow is the share of a line's height by which the middles of two pieces of
// one line may differ.
const sameRow = 0.5

// readingOrder is the order in which lines are read, as indices: by rows, which
// lie across the mean direction of all lines, then along it.
func readingOrder(all []quad) []int {
	sum := point{}
	for _, q := range all {
		sum = sum.plus(q.along())
	}
	if sum.length() == 0 {
		sum = point{1, 0}
	}
	u := sum.times(1 / sum.length())
	v := u.across()
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	key := func(i int, d point) float64 { return all[i].middle().dot(d) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(key(a, v), key(b, v)) })
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && key(order[to], v)-key(order[from], v) < sameRow*min(all[order[from]].height(), all[order[to]].height()) {
			to++
		}
		slices.SortStableFunc(order[from:to], func(a, b int) int { return cmp.Compare(key(a, u), key(b, u)) })
		from = to
	}
	return order
}

// TurnQuads turns lines of text upright by the scores of a direction network, and puts them
// into reading order again.
//
//	quads    FP32 [N, 8]: corners x, y, as TextBoxes gives them
//	scores   FP32 [N, 2]: probability of upright, and of upside down
//	upright  FP32 [N, 8]
//
// Parameters:
//
//	threshold  least probability to turn a line, 0 to 1; default 0.9
func TurnQuads() Function {
	return Function{Doc: "lines of text, turned upright", Prepare: prepareTurn}
}

func prepareTurn(p *Parameters) (Step, error) {
	threshold := float32(p.Number("threshold", 0.9, 0, 1))
	return Step{
		Signature: pipelines.Signature{
			Inputs:  []pipelines.Port{fp32("quads", -1, 8), fp32("scores", -1, 2)},
			Outputs: []pipelines.Port{fp32("upright", -1, 8)},
		},
		Call: func(_ context.Context, inputs []wire.Tensor) ([]wire.Tensor, error) {
			quads, scores := inputs[0], inputs[1]
			if quads.Shape[0] != scores.Shape[0] {
				return nil, fmt.Errorf("%d quads and %d scores do not belong together", quads.Shape[0], scores.Shape[0])
			}
			all := make([]quad, quads.Shape[0])
			for i := range all {
				all[i], _ = readQuad(quads, i)
				if at(scores.Data, 2*i+1) >= threshold {
					all[i] = all[i].turned()
				}
			}
			ordered := make([]quad, len(all))
			for to, from := range readingOrder(all) {
				ordered[to] = all[from]
			}
			return []wire.Tensor{quadTensor(ordered)}, nil
		},
		Sample: sampleTurn,
	}, nil
}

// sampleTurn is a page of lines of which every other is upside down.
func sampleTurn(shapes [][]int64, rng *rand.Rand) []wire.Tensor {
	all := make([]quad, max(shapes[0][0], 1))
	scores := blank(int64(len(all)), 2)
	for i := range all {
		x, y := sampleSide*rng.Float64(), sampleSide*rng.Float64()
		all[i] = quad{{x, y}, {x + 200, y}, {x + 200, y + 20}, {x, y + 20}}
		put(scores.Data, 2*i+i%2, 1)
	}
	return []wire.Tensor{quadTensor(all), scores}
}
