package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// swell makes x[0] bytes.
var swell = kind{
	sig: pipelines.Signature{Inputs: []pipelines.Port{port("x", "FP32", 2)}, Outputs: []pipelines.Port{port("y", "UINT8", -1)}},
	run: func(in []wire.Tensor) []wire.Tensor {
		return []wire.Tensor{wire.FromUint8(make([]byte, int(floats(in[0])[0])))}
	},
}

// TestWhatModulesMakeCounts has modules produce more than a gateway may hold.
func TestWhatModulesMakeCounts(t *testing.T) {
	held := NewBytes(ByteLimits{Total: 1 << 20})
	specs := map[string]spec{"m": {kind: swell}}
	g, workers := serve(t, Options{Bytes: held}, deployment(single(time.Minute), 1, specs), specs)
	defer stop(g, workers)
	ask := func(bytes float32) error {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(bytes, 0)})
		return err
	}
	require.NoError(t, ask(1000))
	require.Zero(t, held.Most(), "little does not count")
	require.NoError(t, ask(1<<19))
	require.InDelta(t, 1<<19, held.Most(), 8<<10)
	err := ask(2 << 20)
	var typed *wire.Error
	require.ErrorAs(t, err, &typed)
	require.Equal(t, wire.CodeOverloaded, typed.Code)
	require.Equal(t, "m", typed.Stage)
	require.ErrorContains(t, err, "--max-bytes")
	require.NoError(t, ask(1<<19), "all was given back")
	require.Zero(t, held.Now())
}

// TestRowsThatAreGatheredCount has a request that small parts are made of, one by one.
func TestRowsThatAreGatheredCount(t *testing.T) {
	held := NewBytes(ByteLimits{Total: 4 << 10})
	d := deployment(fanning(time.Minute), 1, fanningSpecs())
	g, workers := serve(t, Options{Bytes: held}, d, fanningSpecs())
	defer stop(g, workers)
	ask := func(rows float32) error {
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(rows, 1)})
		return err
	}
	require.NoError(t, ask(3))
	require.ErrorContains(t, ask(200), "--max-bytes")
	require.Zero(t, held.Now())
}
