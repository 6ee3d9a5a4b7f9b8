package wire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// nearest is the dumb twin of half and brain: of all finite values it takes the
// closest, the even one of two, and an infinity from half a step beyond the last.
func nearest(v float32, read func(uint16) float32) uint16 {
	sign := uint16(0)
	x := float64(v)
	if math.Signbit(x) {
		sign, x = 0x8000, -x
	}
	best, least := uint16(0), math.Inf(1)
	b := uint16(0)
	for ; !math.IsInf(float64(read(b)), 0); b++ {
		d := math.Abs(float64(read(b)) - x)
		if d < least || d == least && b&1 == 0 {
			best, least = b, d
		}
	}
	last := float64(read(b - 1))
	if beyond := last + (last-float64(read(b-2)))/2; x >= beyond {
		best = b
	}
	return sign | best
}

func TestHalvesAreTheNearest(t *testing.T) {
	readBrain := func(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		if rapid.Bool().Draw(t, "small") {
			v = fromHalf(uint16(rapid.Uint16Range(0, halfInf-2).Draw(t, "half")))
			v += (fromHalf(half(v)+1) - v) * rapid.SampledFrom([]float32{0, 0.25, 0.5, 0.75}).Draw(t, "between")
		}
		if v != v {
			require.True(t, math.IsNaN(float64(fromHalf(half(v)))))
			require.True(t, math.IsNaN(float64(readBrain(brain(v)))))
			return
		}
		require.Equal(t, nearest(v, fromHalf), half(v), v)
		require.Equal(t, nearest(v, readBrain), brain(v), v)
	})
}

func TestHalvesComeBack(t *testing.T) {
	for b := range uint32(1 << 16) {
		v := fromHalf(uint16(b))
		if v == v {
			require.Equal(t, uint16(b), half(v))
		}
	}
	require.Equal(t, float32(1)/(1<<24), fromHalf(1), "the least subnormal")
	require.Equal(t, float32(65504), fromHalf(halfInf-1), "the largest")

	got, err := FromFloat16([]float32{1, -0.5, 65520, 0.1}, 2, 2).Float16s()
	require.NoError(t, err)
	require.Equal(t, []float32{1, -0.5, float32(math.Inf(1)), 0.099975586}, got)
	got, err = FromBFloat16([]float32{1, -0.5, 0.1}).BFloat16s()
	require.NoError(t, err)
	require.Equal(t, []float32{1, -0.5, 0.100097656}, got)
	truths, err := FromBools([]bool{true, false, true}, 3, 1).Bools()
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true}, truths)
	_, err = FromBools([]bool{true}).Float16s()
	require.ErrorContains(t, err, "BOOL, not FP16")
}
