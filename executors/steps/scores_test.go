package steps

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

func moduleOf(function string, p params) pipelines.Module {
	return pipelines.Module{Name: "m", Function: function, Parameters: p}
}

func TestSoftmax(t *testing.T) {
	inf := float32(math.Inf(1))
	i := load(t, "softmax", nil)
	for _, c := range []struct{ given, want []float32 }{
		{[]float32{0, 0}, []float32{0.5, 0.5}},
		{[]float32{1e4, -1e4, 0}, []float32{1, 0, 0}},
		{[]float32{-inf, 0, inf, inf}, []float32{0, 0, 0.5, 0.5}},
		{[]float32{-inf}, []float32{1}},
		{nil, []float32{}},
	} {
		require.InDeltaSlice(t, c.want, floats(t, call(t, i, wire.FromFloat32(c.given))[0]), 1e-7)
	}
	refuses(t, i, "score 2 is not a number", wire.FromFloat32([]float32{1, float32(math.NaN())}))
}

func TestTopKAgreesWithSorting(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		scores := rapid.SliceOfN(rapid.Map(rapid.IntRange(-5, 5), func(x int) float32 { return float32(x) }), 1, 9).Draw(r, "scores")
		k := rapid.IntRange(1, len(scores)).Draw(r, "k")
		answer := call(t, load(t, "top_k", params{"k": float64(k)}), wire.FromFloat32(scores))
		indices, err := answer[0].Int64s()
		require.NoError(r, err)
		values, sorted := floats(t, answer[1]), slices.Clone(scores)
		slices.Sort(sorted)
		slices.Reverse(sorted)
		require.Equal(r, sorted[:k], values)
		for i, at := range indices {
			require.Equal(r, scores[at], values[i])
			require.True(r, i == 0 || values[i-1] > values[i] || indices[i-1] < at, "of equals the earlier")
		}
	})
}

func TestTopKNames(t *testing.T) {
	i := load(t, "top_k", params{"k": 2.0, "labels": []any{"car", "van", "bus"}})
	answer := call(t, i, wire.FromFloat32([]float32{1, 3, 2}))
	names, err := answer[2].Strings()
	require.NoError(t, err)
	require.Equal(t, []string{"van", "bus"}, names)

	refuses(t, load(t, "top_k", params{"k": 2.0}), "1 scores where k = 2", wire.FromFloat32([]float32{1}))
	_, err = Builtin().prepare(moduleOf("top_k", params{"k": 3.0, "labels": []any{"a", "b"}}))
	require.ErrorContains(t, err, `parameter "k" is 3, but there are 2 labels`)
}

func TestConcatJoinsAlongItsAxis(t *testing.T) {
	left, right := wire.FromFloat32([]float32{1, 2, 3, 4}, 2, 2), wire.FromFloat32([]float32{5, 6}, 2, 1)
	names := []any{"left", "right"}
	i := load(t, "concat", params{"names": names, "rank": 2.0, "axis": 1.0})
	answer := call(t, i, left, right)[0]
	require.Equal(t, []int64{2, 3}, answer.Shape)
	require.Equal(t, []float32{1, 2, 5, 3, 4, 6}, floats(t, answer))
	refuses(t, load(t, "concat", params{"names": names, "rank": 2.0}), `input "left" has shape [2 2] and "right" [2 1]: they may differ along axis 0 only`, left, right)

	flat := load(t, "concat", params{"names": names, "datatype": "UINT8"})
	joined := call(t, flat, wire.FromUint8([]uint8{1}), wire.FromUint8([]uint8{}))[0]
	require.Equal(t, []byte{1}, joined.Data)

	for says, p := range map[string]params{
		`parameter "names" is missing`:                             {},
		`must be 2 to 16 names of inputs, not 1`:                   {"names": []any{"a"}},
		`must be different names, but element 2 is "a"`:            {"names": []any{"a", "a"}},
		`parameter "axis" must be between 0 and 0, not 1`:          {"names": names, "axis": 1.0},
		`parameter "datatype" must be one of FP32, UINT8, INT64, `: {"names": names, "datatype": "BYTES"},
	} {
		_, err := Builtin().prepare(moduleOf("concat", p))
		require.ErrorContains(t, err, says)
	}
}

func TestNormalizeByChannel(t *testing.T) {
	i := load(t, "normalize", params{"datatype": "UINT8", "gain": 1.0, "order": "bgr", "mean": []any{1.0, 2.0, 3.0}, "deviation": 2.0})
	answer := call(t, i, wire.FromUint8([]uint8{11, 22, 33}, 3, 1, 1))
	require.Equal(t, []float32{(33 - 1) / 2., (22 - 2) / 2., (11 - 3) / 2.}, floats(t, answer[0]))
}
