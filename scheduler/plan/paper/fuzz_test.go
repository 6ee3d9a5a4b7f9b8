package paper

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
)

func FuzzSplit(f *testing.F) {
	for _, s := range []string{"", "lc", "even", "throughput", "quantized:10ms", "quantized:", "quantized:-1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer testkit.WatchStalls(t, len(s))()
		got, err := parseSplit(s)
		if err == nil && got.kind == "quantized" {
			require.Positive(t, got.step)
		}
	})
}
