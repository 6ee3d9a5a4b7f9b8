package sleep

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestForTakesAtLeastItsTime(t *testing.T) {
	for _, d := range []time.Duration{50 * time.Microsecond, 5 * time.Millisecond} {
		begin := time.Now()
		require.NoError(t, For(t.Context(), d))
		require.GreaterOrEqual(t, time.Since(begin), d)
	}
}

func TestForEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, For(ctx, time.Hour), context.DeadlineExceeded)
	require.ErrorIs(t, For(ctx, time.Microsecond), context.DeadlineExceeded)
}

// BenchmarkFor reports how late it returns, in microseconds at the median
// and the 99th percentile.
func BenchmarkFor(b *testing.B) {
	for _, d := range []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		b.Run(d.String(), func(b *testing.B) {
			var late []time.Duration
			for b.Loop() {
				begin := time.Now()
				_ = For(b.Context(), d)
				late = append(late, time.Since(begin)-d)
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "late-p50-µs")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "late-p99-µs")
		})
	}
}
