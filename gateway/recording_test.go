package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/dispatch/recording"
	"github.com/harpagon/harpagon/wire"
)

// recorded wraps every gateway of a test: at the end, the recorded events of its stations are
// decided again. Recordings are short, so that most begin in the middle.
func recorded(t testing.TB, o Options) *Gateway {
	if _, benchmark := t.(*testing.B); benchmark {
		return New(o)
	}
	if o.Record == 0 {
		o.Record = 64 << 10
	}
	g := New(o)
	t.Cleanup(func() { decidedAgain(t, g.Recording()) })
	return g
}

// decidedAgain writes, reads and replays a recording; every action must be the same.
func decidedAgain(t testing.TB, r recording.Recording) (steps int, batches []recording.Batch) {
	b, err := r.Append(nil)
	require.NoError(t, err)
	again, err := recording.Parse(b)
	require.NoError(t, err)
	for _, s := range again.Stations {
		replayed, err := recording.Replay(s)
		require.NoError(t, err, s.Name)
		assert.Nil(t, replayed.Difference, replayed.Describe())
		steps += replayed.Steps
		batches = append(batches, replayed.Batches...)
	}
	return steps, batches
}

func TestRecordingsOfAGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]spec{"m": {kind: addOne, duration: 2 * time.Millisecond}}
		g, workers := serve(t, Options{Record: 1 << 20}, deployment(single(long), 1, specs), specs)
		for range 20 {
			_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
			require.NoError(t, err)
			time.Sleep(3 * time.Millisecond)
		}
		r := g.Recording()
		assert.Equal(t, "harpagon gateway", r.Program)
		steps, batches := decidedAgain(t, r)
		assert.Greater(t, steps, 40)
		assert.NotEmpty(t, batches)
		for _, b := range batches {
			assert.Greater(t, b.End, b.Start)
		}
		stop(g, workers)
	})
}

func TestNothingIsRecordedWhereThatIsNotWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		specs := map[string]spec{"m": {kind: addOne, duration: 2 * time.Millisecond}}
		g, workers := serve(t, Options{Record: -1}, deployment(single(long), 1, specs), specs)
		_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(1, 2)})
		require.NoError(t, err)
		steps, _ := decidedAgain(t, g.Recording())
		assert.Zero(t, steps)
		stop(g, workers)
	})
}
