package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

func TestBounds(t *testing.T) {
	b := NewBytes(ByteLimits{Total: 100, PerPipeline: 60})
	one, other, third := b.Begin("a"), b.Begin("a"), b.Begin("b")
	require.NoError(t, one.Grow(50))
	err := other.Grow(11)
	require.ErrorIs(t, err, wire.ErrOverloaded)
	require.ErrorContains(t, err, "--max-bytes-per-pipeline")
	require.NoError(t, third.Grow(50))
	require.ErrorContains(t, third.Grow(1), "--max-bytes)")
	one.Release()
	one.Release()
	require.NoError(t, other.Grow(11))
	require.Equal(t, int64(61), b.Now())
	other.Release()
	third.Release()
	require.Zero(t, b.Now())
	require.Empty(t, b.by)
	require.Equal(t, int64(100), b.Most())

	var none *Bytes
	free := none.Begin("a")
	require.NoError(t, free.Grow(1<<40))
	free.Release()
	require.Nil(t, NewBytes(ByteLimits{}))
}

// TestNeverBeyondItsBounds tries what it likes.
func TestNeverBeyondItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBytes(ByteLimits{Total: 100, PerPipeline: 60})
		held := []HeldBytes{b.Begin("a"), b.Begin("a"), b.Begin("b"), b.Begin("c")}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			h := &held[rapid.IntRange(0, len(held)-1).Draw(t, "which")]
			if rapid.Bool().Draw(t, "release") {
				h.Release()
			} else {
				_ = h.Grow(rapid.Int64Range(-5, 70).Draw(t, "n"))
			}
			total, by := int64(0), map[string]int64{}
			for _, h := range held {
				total += h.bytes
				by[h.pipeline] += h.bytes
			}
			require.Equal(t, total, b.Now())
			require.LessOrEqual(t, total, int64(100))
			for _, n := range by {
				require.LessOrEqual(t, n, int64(60))
			}
		}
	})
}
