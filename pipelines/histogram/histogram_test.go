package histogram_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines/histogram"
)

// TestQuantiles holds quantiles against a sorted list, within the errors stated,
// whether counted at once, in two, or in two that are merged.
func TestQuantiles(t *testing.T) {
	quantiles := []float64{0, 0.1, 0.5, 0.99, 1}
	for f, parts := range map[histogram.Fineness]float64{histogram.Fine: 512, histogram.Coarse: 32} {
		t.Run(fmt.Sprint(parts), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				all := rapid.SliceOfN(rapid.Int64Range(0, int64(1000*time.Hour)), 1, 200).Draw(t, "all")
				some := rapid.IntRange(0, len(all)).Draw(t, "in the first")
				var h, other histogram.Histogram
				h.Reset(f)
				other.Reset(f)
				for i, d := range all {
					if i < some {
						h.Add(time.Duration(d))
					} else {
						other.Add(time.Duration(d))
					}
				}
				apart := make([]time.Duration, len(quantiles))
				for i, q := range quantiles {
					apart[i] = histogram.Quantile(q, &h, &other)
				}
				h.Merge(&other)
				slices.Sort(all)
				for i, q := range quantiles {
					exact := float64(all[max(0, int(math.Ceil(q*float64(len(all))))-1)])
					require.InDelta(t, exact, float64(h.Quantile(q)), exact/parts+1)
					require.Equal(t, h.Quantile(q), apart[i])
				}
				require.Equal(t, time.Duration(all[len(all)-1]), h.Max())
				require.Equal(t, int64(len(all)), h.Count())
			})
		})
	}
}

func TestResetKeepsMemory(t *testing.T) {
	var h histogram.Histogram
	assert.Zero(t, h.Quantile(0.5))
	h.Add(time.Second)
	h.Reset(histogram.Fine)
	assert.Zero(t, h.Quantile(0.5))
	assert.Zero(t, h.Max())
	assert.Zero(t, testing.AllocsPerRun(10, func() { h.Add(-1); h.Add(time.Second); h.Reset(histogram.Fine) }))
}
