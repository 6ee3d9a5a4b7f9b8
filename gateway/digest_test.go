package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/scheduler/plan"
)

// TestAnExecutorOfAnotherModelGetsNoWork: executors are named by the digest of what they
// have loaded, so that one of the model before attaches and is given nothing.
func TestAnExecutorOfAnotherModelGetsNoWork(t *testing.T) {
	bubble(t, Options{}, time.Second, spec{kind: addOne, batch: 1, duration: 10 * ms}, func(g *Gateway, workers map[string]*worker) {
		slot := func(digest string) placement.Slot {
			placed, err := placement.Place(placement.Request{
				Pipeline: single(time.Second),
				Plan: plan.Plan{Pipeline: "p", Status: plan.Feasible, Modules: []plan.Module{{Name: "m", Rate: 1, Groups: []plan.Group{{
					Hardware: "cpu", Batch: 1, Concurrency: 1, Duration: 10 * ms, Machines: 1, Rate: 1, Period: time.Second, Window: time.Second,
				}}}}},
				Devices: []placement.Device{{Host: "h", Name: "cpu/0", Hardware: "cpu"}},
				Engines: map[string]placement.ModuleEngine{"m": {Engine: "emulated", Model: digest}},
			})
			require.NoError(t, err)
			return placed.Slots[0]
		}
		older, newer := slot("sha256:aa"), slot("sha256:bb")
		require.NotEqual(t, older.Executor, newer.Executor)

		d := deployment(single(time.Second), 2, map[string]spec{"m": {kind: addOne, duration: 10 * ms}})
		d.Slots = []placement.Slot{newer}
		all := map[string]*worker{}
		for _, s := range []placement.Slot{older, newer} {
			one := d
			one.Slots = []placement.Slot{s}
			for name, w := range start(g, one, map[string]spec{"m": {kind: addOne, duration: 10 * ms}}) {
				all[name], workers[name] = w, w
			}
		}
		require.NoError(t, g.Prepare(context.Background(), d))
		require.NoError(t, g.Install(context.Background(), d))
		for range 10 {
			_, err := ask(context.Background(), g)
			require.Nil(t, err)
		}
		assert.Zero(t, all[older.Executor].batches, "of the model before")
		assert.Equal(t, 10, all[newer.Executor].batches)
	})
}
