package child

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

// TestItemsAreWrittenAsAppended holds the writer that does not copy to the one
// that does.
func TestItemsAreWrittenAsAppended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := make([][]wire.Tensor, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range items {
			items[i] = make([]wire.Tensor, rapid.IntRange(0, 3).Draw(t, "tensors"))
			for j := range items[i] {
				n := rapid.SampledFrom([]int{0, 1, direct - 1, direct, direct + 5}).Draw(t, "bytes")
				items[i][j] = wire.Tensor{Datatype: wire.Uint8, Shape: []int64{int64(n)}, Data: bytes.Repeat([]byte{byte(i), byte(j)}, n)[:n]}
			}
		}
		want, err := appendItems(startFrame(nil, kindResult), items, nil)
		require.NoError(t, err)
		var copied, written bytes.Buffer
		require.NoError(t, writeFrame(&copied, want, defaultMaxMessage))
		_, err = writeItems(&written, nil, kindResult, items, nil, defaultMaxMessage)
		require.NoError(t, err)
		require.Equal(t, copied.Bytes(), written.Bytes())
		if size := itemsSize(items, nil); size > 4 {
			_, err = writeItems(&written, nil, kindResult, items, nil, size-1)
			require.ErrorIs(t, err, errTooLarge)
		}
	})
}
