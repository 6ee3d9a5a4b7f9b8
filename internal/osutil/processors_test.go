package osutil

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// run says how many processors are taken after so long at that use, as far as there are
// processors for it.
func run(l *limit, use float64, so time.Duration) int {
	for ; so > 0; so -= interval {
		l.Next(min(use, float64(l.Now())), 0, interval)
	}
	return l.Now()
}

func TestProcessorsFollowTheLoad(t *testing.T) {
	l := newLimit(16)
	require.Equal(t, 1, l.Now())
	require.Equal(t, 1, run(&l, 0.1, time.Minute), "little to do")
	require.Equal(t, 1, run(&l, 0.55, time.Minute), "one is enough")
	require.Equal(t, 2, run(&l, 0.65, time.Minute), "what is ready would wait for its turn")
	require.Equal(t, 16, run(&l, 40, 8*interval), "as much as there is, within a few intervals")
	require.Equal(t, 16, run(&l, 40, time.Minute), "no more than there is")
	require.Equal(t, 16, run(&l, 2, patience), "not at once fewer")
	few := run(&l, 2, 2*time.Minute)
	require.Equal(t, 3, few, "one more than are used, so that they are not busy")
	require.Equal(t, 1, run(&l, 0.3, time.Minute))
}

func TestABurstLeavesOneProcessor(t *testing.T) {
	l := newLimit(4)
	for range 100 {
		l.Next(1, 0, interval) // at once much to do, and then nothing
		l.Next(0.3, 0, interval)
		l.Next(0.3, 0, interval)
	}
	require.Equal(t, 1, l.Now())
}

func TestGoroutinesThatWaitTakeMore(t *testing.T) {
	l := newLimit(2)
	for range 100 {
		l.Next(0.4, 50*time.Millisecond, interval) // it is not given what it would use
	}
	require.Equal(t, 2, l.Now())
	for range 100 {
		l.Next(0.4, 7*time.Millisecond, interval)
	}
	require.Equal(t, 2, l.Now(), "they still wait")
	for range 100 {
		l.Next(0.4, 100*time.Microsecond, interval)
	}
	require.Equal(t, 1, l.Now())
}

func TestWaitsAreThoseSince(t *testing.T) {
	w := newWaits()
	for range 1000 {
		done := make(chan struct{})
		go close(done)
		<-done
	}
	require.Positive(t, w.next())
}

func BenchmarkNext(b *testing.B) {
	w, l := newWaits(), newLimit(64)
	b.ReportAllocs()
	for b.Loop() {
		l.Next(float64(ProcessorTime()), w.next(), interval)
	}
}

// Whatever a process does, it takes at least one processor and no more than there are, and
// steady use ends at a number that is not changed any more.
func TestLimitSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 64).Draw(t, "most")
		l := newLimit(most)
		for _, use := range rapid.SliceOfN(rapid.Float64Range(0, 80), 0, 40).Draw(t, "uses") {
			before := l.Now()
			n := l.Next(min(use, float64(before)), 0, interval)
			require.GreaterOrEqual(t, n, max(1, before-1))
			require.LessOrEqual(t, n, min(most, 2*before))
		}
		steady := rapid.Float64Range(0, 80).Draw(t, "steady")
		n := run(&l, steady, 5*time.Minute)
		require.Equal(t, n, run(&l, steady, time.Minute), "settled")
		if n < most {
			require.LessOrEqual(t, steady, full*float64(n))
		}
	})
}

func TestFollowGivesBack(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	ctx, cancel := context.WithCancel(t.Context())
	FollowProcessors(ctx)
	cancel()
	require.Eventually(t, func() bool { return runtime.GOMAXPROCS(0) == MostProcessors() }, time.Minute, time.Millisecond)
}

func TestTheEnvironmentGoesBefore(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2")
	before := runtime.GOMAXPROCS(0)
	FollowProcessors(t.Context())
	require.Equal(t, before, runtime.GOMAXPROCS(0))
}
