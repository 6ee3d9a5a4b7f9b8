package executors

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
)

const aheadTakes = 20 * time.Millisecond

// staging is an engine that computes one batch after the other, wherever they
// come from, and notes how long it had nothing to do between them.
type staging struct {
	*fake
	idle time.Duration
}

func (s *staging) Load(ctx context.Context, m Model) (Instance, error) {
	in, err := s.fake.Load(ctx, m)
	return &stagingInstance{fakeInstance: in.(*fakeInstance), of: s}, err
}

type stagingInstance struct {
	*fakeInstance
	of *staging

	mu   sync.Mutex
	free time.Time // when it is done with all that it has
	dead bool
}

func (i *stagingInstance) Stage(items [][]wire.Tensor) (func(context.Context) ([][]wire.Tensor, error), error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead {
		return nil, errors.New("it is dead")
	}
	now := time.Now()
	if i.free.IsZero() {
		i.free = now
	}
	if now.After(i.free) {
		i.of.idle += now.Sub(i.free)
		i.free = now
	}
	i.free = i.free.Add(aheadTakes)
	end := i.free
	return func(ctx context.Context) ([][]wire.Tensor, error) {
		time.Sleep(time.Until(end))
		i.mu.Lock()
		defer i.mu.Unlock()
		if v, _ := items[0][0].Float32s(); v[0] < 0 || i.dead {
			i.dead = true
			return nil, wire.Errorf(wire.CodeUnavailable, "m", "the child has died")
		}
		return items, nil
	}, nil
}

func (i *stagingInstance) Run(ctx context.Context, items [][]wire.Tensor) ([][]wire.Tensor, error) {
	answer, err := i.Stage(items)
	if err != nil {
		return nil, wire.Errorf(wire.CodeUnavailable, "m", "%v", err)
	}
	return answer(ctx)
}

func stagingRig(t *testing.T, f func(t *testing.T, r *rig, s *staging)) {
	bubble(t, func(t *testing.T, r *rig) {
		s := &staging{fake: r.engine}
		r.host.Engines = []Engine{s}
		f(t, r, s)
	})
}

// soon waits for what reports the batch's end.
func (g *gate) soon() *attach.Soon {
	m, err := g.line.Recv()
	require.NoError(g.t, err)
	require.NotNil(g.t, m.Soon, "%+v", m)
	return m.Soon
}

// TestTheNextBatchIsThereWhenOneEnds: from the second batch on, when durations are known, the
// next one travels while one computes.
func TestTheNextBatchIsThereWhenOneEnds(t *testing.T) {
	const way = 2 * time.Millisecond
	stagingRig(t, func(t *testing.T, r *rig, s *staging) {
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(numbers(1)...)
		require.EqualValues(t, 1, r.result().ID)
		time.Sleep(way)
		r.send(numbers(2)...)
		require.Equal(t, way, func() time.Duration { synctest.Wait(); return s.idle }(), "the first has no measured duration to send Soon by")
		for id := uint64(2); id < 10; id++ {
			soon := r.soon()
			assert.Equal(t, id, soon.ID)
			assert.Equal(t, aheadTakes, soon.Compute)
			time.Sleep(way)
			r.send(numbers(float32(id))...)
			result := r.result()
			require.Equal(t, id, result.ID)
			assert.Equal(t, aheadTakes, result.Compute, "from the end of the one before")
		}
		assert.Equal(t, way, s.idle)
		r.soon()
		r.result()
		r.drain()
		require.NoError(t, <-r.done)
	})
}

// TestABatchAheadOvertakesNoOther: where others use the device, no batch is
// handed over before its turn.
func TestABatchAheadOvertakesNoOther(t *testing.T) {
	stagingRig(t, func(t *testing.T, r *rig, _ *staging) {
		r.start(task("e1"), Observer{})
		r.accept()
		go func() { _ = r.host.RunExecutor(t.Context(), task("e2"), Observer{}) }()
		other := <-r.lines
		_, err := other.Recv()
		require.NoError(t, err)
		for id := uint64(1); id < 4; id++ {
			r.send(numbers(1)...)
			require.Equal(t, id, r.result().ID, "and nothing before it")
		}
		r.drain()
		require.NoError(t, <-r.done)
		require.NoError(t, other.Send(&attach.Message{Drain: &attach.Drain{}}))
		synctest.Wait()
	})
}

// TestALostEngineIsLoadedOnce: of two batches that the engine held, the first has it
// loaded again, and each has its place back then.
func TestALostEngineIsLoadedOnce(t *testing.T) {
	stagingRig(t, func(t *testing.T, r *rig, s *staging) {
		r.start(task("e1"), Observer{})
		r.accept()
		r.send(numbers(1)...)
		r.result()
		r.send(numbers(-1)...)
		r.soon()
		r.send(numbers(2)...)
		// The first may have its engine back before the second's result is sent: no
		// gateway's slow stream holds up the loading.
		for results, back := 0, 0; back < 2; {
			m, err := r.line.Recv()
			require.NoError(t, err)
			if m.Ready != nil {
				back++
				require.LessOrEqual(t, back, results, "a place is back that was not away")
				continue
			}
			require.NotNil(t, m.Result, "%+v", m)
			require.ErrorIs(t, m.Result.Err, wire.ErrUnavailable)
			require.True(t, m.Result.Away)
			results++
		}
		require.Equal(t, 2, s.loads)
		r.send(numbers(3)...)
		require.EqualValues(t, 4, r.soon().ID)
		require.Nil(t, r.result().Err)
		r.drain()
		require.NoError(t, <-r.done)
	})
}
