package steps

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

// cellMap builds a map of the given size from cells of five values.
func cellMap(rows, columns int, cells map[[2]int][5]float32) wire.Tensor {
	t := blank(5, int64(rows), int64(columns))
	for i := range rows * columns {
		put(t.Data, i, -100) // nothing there
	}
	for at, values := range cells {
		for channel, v := range values {
			put(t.Data, channel*rows*columns+at[0]*columns+at[1], v)
		}
	}
	return t
}

func TestThresholdBoxesDecodesTheContract(t *testing.T) {
	i := load(t, "threshold_boxes", params{"stride": 8.0})
	ln2 := float32(math.Ln2)
	answer := call(t, i, cellMap(6, 12, map[[2]int][5]float32{
		{2, 3}:  {2, 0.25, -0.5, ln2, 0}, // centre (30, 16), 16 wide, 8 high
		{0, 11}: {3, 0, 0, 2 * ln2, ln2}, // reaches out of the image at the top and right
		{5, 0}:  {-0.1, 0, 0, 0, 0},      // below one half
	}))
	require.Equal(t, []int64{2, 4}, answer[0].Shape)
	require.InDeltaSlice(t, []float32{76, 0, 96, 12, 22, 12, 38, 20}, floats(t, answer[0]), 1e-4)
	require.InDeltaSlice(t, []float64{sigmoid(3), sigmoid(2)}, []float64{float64(floats(t, answer[1])[0]), float64(floats(t, answer[1])[1])}, 1e-6)
}

func TestThresholdBoxesReadsOtherMaps(t *testing.T) {
	i := load(t, "threshold_boxes", params{"stride": 10.0, "score": "probability", "size": "linear", "layout": "hwc", "threshold": 0.9})
	answer := call(t, i, wire.FromFloat32([]float32{0.95, 0, 0, 0.5, 1, 0.85, 0, 0, 1, 1}, 1, 2, 5))
	require.InDeltaSlice(t, []float32{2.5, 0, 7.5, 10}, floats(t, answer[0]), 1e-5)
	require.Equal(t, []float32{0.95}, floats(t, answer[1]))
}

func TestThresholdBoxesWithoutDetections(t *testing.T) {
	i := load(t, "threshold_boxes", params{"stride": 8.0})
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, m := range map[string]wire.Tensor{
		"empty map":   blank(5, 0, 7),
		"low scores":  cellMap(3, 3, nil),
		"no score":    cellMap(3, 3, map[[2]int][5]float32{{1, 1}: {nan, 0, 0, 0, 0}}),
		"no centre":   cellMap(3, 3, map[[2]int][5]float32{{1, 1}: {9, nan, 0, 0, 0}}),
		"no size":     cellMap(3, 3, map[[2]int][5]float32{{1, 1}: {9, 0, 0, 0, nan}}),
		"no place":    cellMap(3, 3, map[[2]int][5]float32{{1, 1}: {9, inf, 0, 0, 0}}),
		"both":        cellMap(3, 3, map[[2]int][5]float32{{1, 1}: {9, inf, 0, inf, 0}}),
		"far outside": cellMap(3, 3, map[[2]int][5]float32{{1, 1}: {9, -50, 0, 0, 0}}),
		"no area":     cellMap(3, 3, map[[2]int][5]float32{{1, 1}: {9, 0, 0, -inf, 0}}),
	} {
		t.Run(name, func(t *testing.T) {
			answer := call(t, i, m)
			require.Equal(t, []int64{0, 4}, answer[0].Shape)
			require.Equal(t, []int64{0}, answer[1].Shape)
		})
	}
}

func TestThresholdBoxesKeepsTheBestOfOverlappingOnes(t *testing.T) {
	cells := map[[2]int][5]float32{
		{1, 1}: {3, 0, 0, 0.5, 0.5},
		{1, 2}: {2, -0.9, 0, 0.5, 0.5}, // nearly on top of the first
		{4, 4}: {1, 0, 0, 0.5, 0.5},
		{4, 7}: {1, 0, 0, 0.5, 0.5}, // an equal: the earlier cell goes first
	}
	for given, want := range map[string]int{"": 3, "iou": 4, "max": 1} {
		p := params{"stride": 8.0}
		if given != "" {
			p[given] = 1.0
		}
		answer := call(t, load(t, "threshold_boxes", p), cellMap(8, 8, cells))
		require.EqualValues(t, want, answer[0].Shape[0], given)
		if given == "" {
			require.Less(t, floats(t, answer[0])[4], floats(t, answer[0])[8])
		}
	}
}

// The greedy rule, stated as a fixpoint: a box is kept exactly when no kept box before it in
// the order overlaps it too much.
func TestSuppressAgreesWithItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.IntRange(0, 10)
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) box {
			x, y := float64(whole.Draw(t, "x")), float64(whole.Draw(t, "y"))
			return box{x, y, x + 1 + float64(whole.Draw(t, "w")), y + 1 + float64(whole.Draw(t, "h")), float64(whole.Draw(t, "score"))}
		}), 0, 12).Draw(t, "boxes")
		iou := rapid.SampledFrom([]float64{0, 0.2, 0.5, 1}).Draw(t, "iou")
		most := rapid.IntRange(1, 12).Draw(t, "most")

		order := slices.Clone(all)
		for i := range order { // insertion sort: stable and plain
			for j := i; j > 0 && order[j].score > order[j-1].score; j-- {
				order[j], order[j-1] = order[j-1], order[j]
			}
		}
		keep := make([]bool, len(order))
		var want []box
		for i := range order {
			keep[i] = true
			for j := range i {
				keep[i] = keep[i] && !(keep[j] && gridOverlap(order[i], order[j]) > iou)
			}
			if keep[i] && len(want) < most {
				want = append(want, order[i])
			}
		}
		require.Equal(t, want, suppress(slices.Clone(all), iou, most))
	})
}

// gridOverlap counts unit squares; exact for whole coordinates.
func gridOverlap(a, b box) float64 {
	both, either := 0.0, 0.0
	inside := func(o box, x, y float64) bool { return x >= o.x0 && x < o.x1 && y >= o.y0 && y < o.y1 }
	for x := 0.0; x < 25; x++ {
		for y := 0.0; y < 25; y++ {
			ina, inb := inside(a, x, y), inside(b, x, y)
			if ina && inb {
				both++
			}
			if ina || inb {
				either++
			}
		}
	}
	return both / either
}

func BenchmarkThresholdBoxes(b *testing.B) {
	i := load(b, "threshold_boxes", params{"stride": 8.0})
	m := cellMap(12, 12, map[[2]int][5]float32{{1, 1}: {3}, {5, 5}: {3}, {9, 2}: {3}})
	b.ReportAllocs()
	for b.Loop() {
		call(b, i, m)
	}
}
