package executors

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// room is a bound of so many bytes.
type room struct {
	mu         sync.Mutex
	left, used int64
}

func (r *room) Take(n int64) (func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.left {
		return nil, wire.Errorf(wire.CodeOverloaded, "", "no room")
	}
	r.left -= n
	r.used += n
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.left += n
		r.used -= n
	}, nil
}

// TestWhatABatchMakesIsHeldUntilItIsAnswered has requests that each state how much they take.
// Those there is no room for fail alone, and all is given back with the answer.
func TestWhatABatchMakesIsHeldUntilItIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := &room{left: 10}
		r.host.Memory = m
		r.engine.run = func(ctx context.Context, items [][]wire.Tensor) (err error) {
			var kept []func()
			for _, in := range items {
				v, _ := in[0].Float32s()
				release, err := ReserveMemory(ctx, int64(v[0]))
				if err != nil {
					for _, release := range kept {
						release()
					}
					return err
				}
				kept = append(kept, release)
			}
			return nil
		}
		job := task("e1")
		job.Slot.Batch = 8
		r.start(job, Observer{})
		r.accept()
		for _, c := range []struct {
			sizes []float32
			fail  []bool
		}{
			{[]float32{5, 5}, nil},
			{[]float32{4, 11, 3, 4}, []bool{false, true, false, true}},
			{[]float32{5, 5}, nil},
		} {
			r.send(numbers(c.sizes...)...)
			got := r.result()
			require.Nil(t, got.Err)
			for i, fails := range c.fail {
				require.Equal(t, fails, got.Errs[i] != nil)
				if fails {
					require.Equal(t, wire.CodeOverloaded, got.Errs[i].Code)
				}
			}
			require.Zero(t, m.used)
		}
		r.drain()
		require.NoError(t, <-r.done)
	})
}
