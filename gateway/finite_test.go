package gateway

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// TestWhatIsNoNumberIsAFailureOfTheNetwork where JSON is wanted, counts as one, and is reported
// of the module; binary data is sent as it is.
func TestWhatIsNoNumberIsAFailureOfTheNetwork(t *testing.T) {
	root := kind{sig: addOne.sig, run: func(in []wire.Tensor) []wire.Tensor {
		return []wire.Tensor{wire.FromFloat32([]float32{float32(math.Sqrt(float64(floats(in[0])[0]))), 0}, 2)}
	}}
	specs := map[string]spec{"m": {kind: root, duration: time.Millisecond}}
	g, workers := serve(t, Options{}, deployment(single(long), 1, specs), specs)
	defer stop(g, workers)
	ask := func(x float32, textual func(string) bool) error {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(x, 0), Textual: textual})
		return err
	}
	asText := func(string) bool { return true }
	require.NoError(t, ask(4, asText))
	require.NoError(t, ask(-4, nil))
	require.NoError(t, ask(-4, func(string) bool { return false }))
	err := ask(-4, asText)
	require.ErrorIs(t, err, wire.ErrInternal)
	require.ErrorContains(t, err, "holds NaN")
	totals := g.Totals("p")
	require.EqualValues(t, 3, totals[Completed])
	require.EqualValues(t, 1, totals[Failed])
	require.Contains(t, g.Measures("p").Modules[0].Failure, "holds NaN")
}
