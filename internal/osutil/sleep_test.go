package osutil

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestForTakesAtLeastItsTime(t *testing.T) {
	for _, d := range []time.Duration{50 * time.Microsecond, 5 * time.Millisecond} {
		begin := time.Now()
		require.NoError(t, Sleep(t.Context(), d))
		require.GreaterOrEqual(t, time.Since(begin), d)
	}
}

func TestForEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, Sleep(ctx, time.Hour), context.DeadlineExceeded)
	require.ErrorIs(t, Sleep(ctx, time.Microsecond), context.DeadlineExceeded)
}

// TestAgainFindsThingsSoon: what comes after so long is found at most a tenth later.
func TestAgainFindsThingsSoon(t *testing.T) {
	const least = 20 * time.Millisecond
	for _, comes := range []time.Duration{0, 10 * time.Millisecond, 630 * time.Millisecond, 1270 * time.Millisecond, 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			for time.Since(began) < comes {
				require.NoError(t, SleepAgain(t.Context(), began, least, time.Second))
			}
			require.LessOrEqual(t, time.Since(began), comes+max(comes/10, least))
		})
	}
}

// BenchmarkFor reports how late it returns, in microseconds at the median
// and the 99th percentile.
func BenchmarkFor(b *testing.B) {
	for _, d := range []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		b.Run(d.String(), func(b *testing.B) {
			var late []time.Duration
			for b.Loop() {
				begin := time.Now()
				_ = Sleep(b.Context(), d)
				late = append(late, time.Since(begin)-d)
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "late-p50-µs")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "late-p99-µs")
		})
	}
}

// BenchmarkForMany has 64 sleep at once, as emulated devices do.
func BenchmarkForMany(b *testing.B) {
	const d, sleepers = 20 * time.Millisecond, 64
	late := make([][]time.Duration, sleepers)
	var all sync.WaitGroup
	for i := range late {
		all.Go(func() {
			time.Sleep(time.Duration(i) * d / sleepers)
			for range b.N {
				begin := time.Now()
				_ = Sleep(b.Context(), d)
				late[i] = append(late[i], time.Since(begin)-d)
			}
		})
	}
	all.Wait()
	every := slices.Concat(late...)
	slices.Sort(every)
	b.ReportMetric(float64(every[len(every)/2].Microseconds()), "late-p50-µs")
	b.ReportMetric(float64(every[len(every)*99/100].Microseconds()), "late-p99-µs")
}
