package osutil

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// run reports how many processors are taken after so many intervals at that use, as far as there
// are processors for it.
func run(l *limit, use float64, intervals int) int {
	for range intervals {
		l.Next(min(use, float64(l.now)))
	}
	return l.now
}

func TestProcessorsFollowTheLoad(t *testing.T) {
	l := newLimit(16)
	require.Equal(t, 1, l.now)
	require.Equal(t, 1, run(&l, 0.1, 600), "little to do")
	require.Equal(t, 1, run(&l, 0.75, 600), "one is enough")
	require.Equal(t, 2, run(&l, 0.85, 1), "what is ready would wait for its turn")
	require.Equal(t, 16, run(&l, 40, 8), "as much as there is, within a few intervals")
	require.Equal(t, 16, run(&l, 40, 600), "no more than there is")
	require.Equal(t, 16, run(&l, 2, remembered-1), "not at once fewer")
	require.Equal(t, 3, run(&l, 2, 1), "one more than are used, so that they are not busy")
	require.Equal(t, 1, run(&l, 0.3, remembered))
}

// Whatever a process does, it takes at least one processor and no more than there are, steady
// use ends at a number that is not changed any more, and leaves some of it free.
func TestLimitSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 64).Draw(t, "most")
		l := newLimit(most)
		for _, use := range rapid.SliceOfN(rapid.Float64Range(0, 80), 0, 40).Draw(t, "uses") {
			n := l.Next(min(use, float64(l.now)))
			require.GreaterOrEqual(t, n, 1)
			require.LessOrEqual(t, n, most)
		}
		steady := rapid.Float64Range(0, 80).Draw(t, "steady")
		n := run(&l, steady, 10*remembered)
		require.Equal(t, n, run(&l, steady, 10*remembered), "settled")
		if n < most {
			require.Less(t, steady, share*float64(n))
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
