package gateway

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// foretelling is a worker that sends Soon 5 ms before the end of a batch, and notes which
// batches had arrived by then.
func foretelling(w *worker, early map[uint64]bool) func(s attach.Stream) {
	return func(s attach.Stream) {
		batches := make(chan *attach.Batch, 8)
		go func() {
			defer close(batches)
			for {
				m, err := s.Recv()
				if err != nil || m.Drain != nil {
					return
				}
				batches <- m.Batch
			}
		}()
		defer s.Close()
		for b := range batches {
			time.Sleep(15 * ms)
			_ = s.Send(&attach.Message{Soon: &attach.Soon{ID: b.ID, Compute: 20 * ms}})
			time.Sleep(5 * ms)
			early[b.ID+1] = len(batches) > 0
			_ = s.Send(&attach.Message{Result: w.answer(b)})
		}
	}
}

// TestABatchIsSentAheadOfTheEnd: a worker that sends Soon has the next batch when one ends,
// unless another executor uses its device.
func TestABatchIsSentAheadOfTheEnd(t *testing.T) {
	for name, shared := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := single(time.Second)
				specs := map[string]spec{"m": {kind: addOne, duration: 20 * ms, executors: 1}}
				d := deployment(p, 1, specs)
				g := recorded(t, Options{})
				early := make(map[uint64]bool)
				w := &worker{kind: addOne}
				w.serving = foretelling(w, early)
				w.hello = attach.Hello{Executor: d.Slots[0].Executor, Pipeline: "p", Module: "m", Host: "h", Device: "cpu/0", MaxBatch: 1, Concurrency: 1}
				w.attach(g)
				workers := map[string]*worker{"m": w}
				if shared {
					other := &worker{kind: addOne}
					other.hello = w.hello
					other.hello.Executor, other.hello.Pipeline = "q/1/0", "q"
					other.attach(g)
					workers["q"] = other
				}
				require.NoError(t, g.Prepare(context.Background(), d))
				require.NoError(t, g.Install(context.Background(), d))
				var group sync.WaitGroup
				for range 5 {
					at(g, 0, &group, func(r *wire.InferResponse, err *wire.Error) {
						require.Nil(t, err)
						requireSum(t, r)
					})
				}
				group.Wait()
				require.Equal(t, map[uint64]bool{2: !shared, 3: !shared, 4: !shared, 5: !shared, 6: false}, early)
				require.Equal(t, int64(5), g.Measures("p").Modules[0].Batches)
				require.Zero(t, g.Measures("p").InFlight)
				stop(g, workers)
			})
		})
	}
}
