package child

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// TestBatchesAhead sends batches ahead of the answers to those before.
func TestBatchesAhead(t *testing.T) {
	in := load(t, quick(new(log)), nil)
	staged := func(x float32) func() {
		items := batch(x, 2, 3)
		answer, err := in.Stage(items)
		require.NoError(t, err)
		return func() {
			got, err := answer(t.Context())
			require.NoError(t, err)
			assert.Equal(t, items, got)
		}
	}
	first := staged(1)
	for x := range 20 {
		next := staged(float32(x))
		_, err := in.Stage(batch(7))
		require.ErrorIs(t, err, errFull, "the child holds two")
		first()
		first = next
	}
	// What is given to Run comes after what was staged, whose answer is kept.
	got, err := in.Run(t.Context(), batch(9))
	require.NoError(t, err)
	assert.Equal(t, batch(9), got)
	first()
	_, err = in.Run(t.Context(), batch(askInvalid))
	require.ErrorIs(t, err, wire.ErrInvalid)
	second, err := in.Stage(batch(askInvalid))
	require.NoError(t, err)
	third := staged(5)
	_, err = second(t.Context())
	require.ErrorIs(t, err, wire.ErrInvalid)
	third()
}

// TestADeathLosesAllBatchesThatWereSent, and all that come after.
func TestADeathLosesAllBatchesThatWereSent(t *testing.T) {
	in := load(t, quick(new(log)), nil)
	first, err := in.Stage(batch(askExit))
	require.NoError(t, err)
	second, err := in.Stage(batch(1)) // or the child is dead already
	_, failed := first(t.Context())
	require.ErrorIs(t, failed, wire.ErrUnavailable)
	if err == nil {
		_, err = second(t.Context())
		require.ErrorIs(t, err, wire.ErrUnavailable)
	}
	_, err = in.Stage(batch(1))
	require.Equal(t, failed, err)
}

// TestAPipeMayBeFull: a batch whose message is long is not sent ahead.
func TestAPipeMayBeFull(t *testing.T) {
	items := make([][]wire.Tensor, 2500)
	for i := range items {
		items[i] = batch(make([]float32, i)...)[0]
	}
	_, err := load(t, quick(new(log)), nil).Stage(items)
	require.ErrorIs(t, err, errFull)
}
