package gateway

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// TestWhatComesTogetherSharesBatches: the items that a request is split into come to their
// module together: the first of them does not start alone.
func TestWhatComesTogetherSharesBatches(t *testing.T) {
	specs := fanningSpecs()
	specs["inc"] = spec{kind: addOne, batch: 4}
	var mu sync.Mutex
	sizes := map[string][]int{}
	o := Options{}
	o.Observer.BatchBegin = func(b BatchInfo) {
		mu.Lock()
		defer mu.Unlock()
		sizes[b.Module] = append(sizes[b.Module], b.Size)
	}
	g, workers := serve(t, o, deployment(fanning(long), 1, specs), specs)
	defer stop(g, workers)
	_, err := g.Infer(context.Background(), &wire.InferRequest{Pipeline: "p", Inputs: vector(8, 5)})
	require.NoError(t, err)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []int{4, 4}, sizes["inc"])
}
