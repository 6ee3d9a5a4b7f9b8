package executors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

// numbered is an FP32 vector that begins with a number.
func numbered(x float32) []wire.Tensor { return []wire.Tensor{wire.FromFloat32([]float32{x, 0}, 2)} }

func first(items [][]wire.Tensor, i int) float32 {
	v, _ := items[i][0].Float32s()
	return v[0]
}

func profiled(name string, took time.Duration) Task {
	t := task(name)
	t.Module.Profile.Points = []pipelines.Point{{Hardware: "cpu", Batch: 1, Duration: took}, {Hardware: "cpu", Batch: 2, Duration: 2 * took}}
	return t
}

// TestAnEngineThatHangsIsReplaced holds that a batch which takes ten times its slowest run,
// and a second at least, is given up, whether the engine heeds its context or not, that the
// device is free then, and that the engine is closed when it has ended.
func TestAnEngineThatHangsIsReplaced(t *testing.T) {
	for _, c := range []struct {
		took   time.Duration
		heeds  bool
		gaveUp time.Duration
	}{
		{5 * time.Millisecond, true, time.Second},
		{5 * time.Millisecond, false, 2 * time.Second},
		{300 * time.Millisecond, true, 3 * time.Second},
		{300 * time.Millisecond, false, 4 * time.Second},
	} {
		bubble(t, func(t *testing.T, r *rig) {
			wakes := make(chan struct{})
			r.engine.run = func(ctx context.Context, items [][]wire.Tensor) error {
				if first(items, 0) != 17 {
					return nil
				}
				if c.heeds {
					<-ctx.Done()
					return ctx.Err()
				}
				<-wakes
				return nil
			}
			r.start(profiled("e1", c.took), Observer{})
			r.accept()
			began := time.Now()
			r.send(numbered(17))
			result := r.result()
			require.ErrorIs(t, result.Err, wire.ErrUnavailable)
			require.ErrorContains(t, result.Err, "far longer than its profile")
			require.True(t, result.Away)
			require.Equal(t, c.gaveUp, time.Since(began))
			r.ready()
			r.send(numbered(1))
			require.Nil(t, r.result().Err)
			require.Equal(t, 2, r.engine.loads)
			close(wakes)
			time.Sleep(time.Millisecond)
			r.engine.mu.Lock()
			require.Equal(t, 1, r.engine.open, "the one that hung has been closed")
			r.engine.mu.Unlock()
			r.drain()
			require.NoError(t, <-r.done)
		})
	}
}

// TestWithoutAProfileNothingIsGivenUp: unknown durations drop no request.
func TestWithoutAProfileNothingIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(context.Context, [][]wire.Tensor) error { time.Sleep(time.Hour); return nil }
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(numbered(1))
		require.Nil(t, r.result().Err)
		r.drain()
		require.NoError(t, <-r.done)
	})
}

// TestRequestsApart holds that requests of which one may have cost an engine are computed
// each by itself: those before it have their answers, and those behind it were not begun.
func TestRequestsApart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.run = func(_ context.Context, items [][]wire.Tensor) error {
			for i := range items {
				if first(items, i) == 19 {
					return wire.Errorf(wire.CodeUnavailable, "m", "a crash")
				}
			}
			return nil
		}
		many := task("e1")
		many.Slot.Batch, many.Slot.Batches = 4, []int{1, 4}
		r.start(many, Observer{})
		r.accept()
		items := [][]wire.Tensor{numbered(1), numbered(19), numbered(2), numbered(3)}
		r.send(items...)
		result := r.result()
		require.ErrorIs(t, result.Err, wire.ErrUnavailable)
		require.Zero(t, result.Behind, "all were given to the engine")
		r.ready()
		r.sent++
		require.NoError(t, r.line.Send(&attach.Message{Batch: &attach.Batch{ID: r.sent, Items: items, Apart: true}}))
		result = r.result()
		require.Nil(t, result.Err)
		require.True(t, result.Away)
		require.Nil(t, result.Errs[0])
		require.Equal(t, items[0], result.Items[0])
		require.ErrorIs(t, result.Errs[1], wire.ErrUnavailable)
		require.ErrorIs(t, result.Errs[3], wire.ErrUnavailable)
		require.Equal(t, 2, result.Behind)
		require.Equal(t, 1, result.Cut(9, 0, 3).Behind, "of three of them")
		require.Equal(t, 2, result.Cut(9, 2, 4).Behind)
		require.Zero(t, result.Cut(9, 0, 2).Behind)
		r.ready()
		r.drain()
		require.NoError(t, <-r.done)
	})
}
