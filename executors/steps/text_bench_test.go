package steps

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/executors"
	"github.com/harpagon/harpagon/wire"
)

// BenchmarkText runs the steps of examples/ocr on what they are measured with:
// a page of 480 by 640 pixels with 14 lines.
func BenchmarkText(b *testing.B) {
	path := filepath.Join(b.TempDir(), "letters.txt")
	require.NoError(b, os.WriteFile(path, []byte(strings.Repeat("a\n", 6623)), 0o600))
	cut := map[string]any{"datatype": "UINT8", "width": 480.0, "height": 48.0}
	for _, c := range []struct {
		function   string
		parameters map[string]any
		shapes     [][]int64
	}{
		{"letterbox", map[string]any{"datatype": "UINT8", "width": 480.0, "height": 640.0}, [][]int64{{3, 32, 32}}},
		{"text_boxes", nil, [][]int64{{1, 640, 480}, {}}},
		{"text_lines", cut, [][]int64{{3, 32, 32}, {14, 8}}},
		{"turn_quads", nil, [][]int64{{14, 8}, {14, 2}}},
		{"ctc_text", map[string]any{"dictionary_file": path}, [][]int64{{60, 6625}}},
	} {
		b.Run(c.function, func(b *testing.B) {
			in := prepared(b, c.function, c.parameters)
			item := [][]wire.Tensor{in.(executors.Sampler).Sample(c.shapes, rand.New(rand.NewPCG(1, 1)))}
			b.ReportAllocs()
			for b.Loop() {
				_, err := in.Run(context.Background(), item)
				require.NoError(b, err)
			}
		})
	}
}
