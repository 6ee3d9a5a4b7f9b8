package wire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNotFinite(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(-1)
	for _, c := range []struct {
		tensor Tensor
		want   float64
		found  bool
	}{
		{FromFloat32([]float32{1, math.MaxFloat32, float32(nan)}), nan, true},
		{FromFloat32([]float32{float32(inf), float32(nan)}), inf, true},
		{FromFloat32([]float32{0, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32}), 0, false},
		{FromInt64([]int64{-1}), 0, false},
		{Tensor{Datatype: FP64, Shape: []int64{1}, Data: []byte{0, 0, 0, 0, 0, 0, 0xf0, 0x7f}}, math.Inf(1), true},
		{Tensor{Datatype: FP64, Shape: []int64{1}, Data: []byte{0, 0, 0, 0, 0, 0, 0xe0, 0x7f}}, 0, false},
	} {
		got, found := c.tensor.NotFinite()
		require.Equal(t, c.found, found)
		if math.IsNaN(c.want) {
			require.True(t, math.IsNaN(got))
		} else {
			require.Equal(t, c.want, got)
		}
	}
}
