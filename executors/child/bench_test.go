package child

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// BenchmarkRoundTrip is what a child costs besides the engine: a batch of one
// kilobyte or one megabyte there and back.
func BenchmarkRoundTrip(b *testing.B) {
	for _, c := range []struct {
		name  string
		bytes int
		pipe  bool
	}{{"1KB", 1 << 10, false}, {"1KB/pipe", 1 << 10, true}, {"1MB", 1 << 20, false}, {"1MB/pipe", 1 << 20, true}} {
		b.Run(c.name, func(b *testing.B) {
			o := quick(new(log))
			o.Pipe = c.pipe
			in := load(b, o, nil)
			items := [][]wire.Tensor{{wire.FromFloat32(make([]float32, c.bytes/4), int64(c.bytes/4))}}
			b.ReportAllocs()
			b.SetBytes(int64(c.bytes))
			for b.Loop() {
				_, err := in.Run(b.Context(), items)
				require.NoError(b, err)
			}
		})
	}
}
