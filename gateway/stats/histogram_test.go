package stats

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestHistogramIsCloseToExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h histogram
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(time.Minute)), 1, 200).Draw(t, "durations")
		for _, d := range all {
			h.add(time.Duration(d))
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.9, 0.99} {
			exact := time.Duration(all[int(q*float64(len(all)))])
			got := h.quantile(q)
			require.GreaterOrEqual(t, got, exact)
			require.LessOrEqual(t, float64(got), float64(exact)*17/16+float64(time.Microsecond)*2)
		}
	})
}
