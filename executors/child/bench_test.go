package child

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// BenchmarkRoundTrip is what a child costs besides the engine: batches of rows of one
// kilobyte or one megabyte there and back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, c := range []struct{ rows, bytes int }{{1, 1 << 10}, {64, 1 << 10}, {1, 1 << 20}} {
		b.Run(fmt.Sprintf("%dx%dKB", c.rows, c.bytes>>10), func(b *testing.B) {
			in := load(b, quick(new(log)), nil)
			items := make([][]wire.Tensor, c.rows)
			for i := range items {
				items[i] = []wire.Tensor{wire.FromFloat32(make([]float32, c.bytes/4), int64(c.bytes/4)), wire.FromInt64([]int64{1})}
			}
			b.ReportAllocs()
			b.SetBytes(int64(c.rows * c.bytes))
			for b.Loop() {
				_, err := in.Run(b.Context(), items)
				require.NoError(b, err)
			}
		})
	}
}
