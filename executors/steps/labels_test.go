package steps

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/harpagon/harpagon/wire"
)

func TestArgmaxLabel(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		scores string
		given  []float32
		label  string
		sure   float64
	}{
		{"logits", []float32{1, 3, 2}, "van", 1 / (1 + math.Exp(-1) + math.Exp(-2))},
		{"logits", []float32{1e4, -1e4, 0}, "car", 1},
		{"logits", []float32{5, 5, 5}, "car", 1. / 3},
		{"logits", []float32{-inf, 0, inf}, "bus", 1},
		{"logits", []float32{-inf, -inf, -inf}, "car", 1. / 3},
		{"probabilities", []float32{0.1, 0.2, 0.7}, "bus", 0.7},
	} {
		i := load(t, "argmax_label", params{"labels": []any{"car", "van", "bus"}, "scores": c.scores})
		answer := call(t, i, wire.FromFloat32(c.given))
		label, err := answer[0].Strings()
		require.NoError(t, err)
		require.Equal(t, []string{c.label}, label)
		require.Empty(t, answer[0].Shape)
		require.InDelta(t, c.sure, floats(t, answer[1])[0], 1e-6)
	}
	i := load(t, "argmax_label", params{"labels": []string{"a", "b"}})
	require.Equal(t, []int64{2}, i.Signature().Inputs[0].Shape)
	refuses(t, i, "score 2 is not a number", wire.FromFloat32([]float32{1, float32(math.NaN())}))
}

func TestArgmaxAgreesWithPlainSoftmax(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Float32Range(-30, 30), 1, 8).Draw(t, "scores")
		best, confidence, err := argmax(wire.FromFloat32(scores).Data, len(scores), true)
		require.NoError(t, err)
		sum := 0.0
		for i, s := range scores {
			sum += math.Exp(float64(s))
			require.LessOrEqual(t, s, scores[best])
			require.True(t, i >= best || s < scores[best], "the first of equals")
		}
		require.InDelta(t, math.Exp(float64(scores[best]))/sum, confidence, 1e-6)
	})
}
