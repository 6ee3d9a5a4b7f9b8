package pipelines

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// risingByDefinition is the isotonic regression by its max-min formula: at i the
// greatest over the beginnings up to i of the least over the ends from i on of
// the median between them.
func risingByDefinition(x []time.Duration) []time.Duration {
	median := func(part []time.Duration) time.Duration {
		sorted := slices.Clone(part)
		slices.Sort(sorted)
		return lowerMedian(sorted)
	}
	out := make([]time.Duration, len(x))
	for i := range x {
		for s := 0; s <= i; s++ {
			least := median(x[s : i+1])
			for t := i + 1; t < len(x); t++ {
				least = min(least, median(x[s:t+1]))
			}
			if s == 0 || least > out[i] {
				out[i] = least
			}
		}
	}
	return out
}

func TestPoolingIsTheRegressionByItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 12).Draw(t, "d"))
		}), 1, 10).Draw(t, "x")
		got := rising(slices.Clone(x))
		require.Equal(t, risingByDefinition(x), got, "of %v", x)
		require.True(t, slices.IsSorted(got))
		if slices.IsSorted(x) {
			require.Equal(t, x, got, "what rises stays")
		}
	})
}

func TestPoints(t *testing.T) {
	at := func(hardware string, batch int, ms, spread float64) Point {
		return Point{Hardware: hardware, Batch: batch, Concurrency: 1, Duration: time.Duration(ms * 1e6), Spread: time.Duration(spread * 1e6)}
	}
	require.Equal(t, []Point{
		at("cpu", 1, 5, 1), at("cpu", 2, 5, 1), at("cpu", 4, 9, 1), at("cpu", 8, 9, 1),
		at("gpu", 1, 1, 0), at("gpu", 2, 1, 0),
	}, IsotonicPoints([]Point{
		at("cpu", 8, 9, 1), at("cpu", 4, 80, 5), at("cpu", 2, 5, 1), at("cpu", 1, 6, 1),
		at("gpu", 2, 1, 0), at("gpu", 1, 2, 0),
	}))
}

func TestSpreadsStayAboveZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var points []Point
		for b := range rapid.IntRange(1, 8).Draw(t, "n") {
			points = append(points, Point{
				Hardware: "cpu", Batch: b + 1, Concurrency: 1,
				Duration: time.Duration(rapid.IntRange(1, 20).Draw(t, "d")),
				Spread:   time.Duration(rapid.IntRange(0, 20).Draw(t, "s")),
			})
		}
		last := Point{}
		for _, p := range IsotonicPoints(points) {
			require.GreaterOrEqual(t, p.Duration, last.Duration)
			require.GreaterOrEqual(t, p.Duration+p.Spread, last.Duration+last.Spread)
			require.GreaterOrEqual(t, p.Spread, time.Duration(0))
			last = p
		}
	})
}
