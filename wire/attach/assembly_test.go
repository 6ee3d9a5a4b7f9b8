package attach

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/wire"
)

// rig is an executor that adds a thousand, with two gateways and a dispatcher.
type rig struct {
	t       *testing.T
	a, b, d Stream   // their ends
	runs    chan int // sizes of the batches that ran
	away    bool     // the next batch costs the engine
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, runs: make(chan int, 100)}
	var all Assembly
	for _, far := range []*Stream{&r.a, &r.b, &r.d} {
		near, end := Pipe()
		*far = end
		s := all.Wrap(near)
		go r.work(s)
	}
	return r
}

func (r *rig) work(s Stream) {
	for {
		m, err := s.Recv()
		if err != nil {
			return
		}
		result := &Result{ID: m.Batch.ID, Waited: 1, Compute: 2, Away: r.away}
		r.runs <- len(m.Batch.Items)
		for _, in := range m.Batch.Items {
			v, _ := in[0].Float32s()
			result.Items = append(result.Items, row(v[0]+1000))
		}
		_ = s.Send(&Message{Result: result})
		if r.away {
			_ = s.Send(&Message{Ready: &Ready{}})
		}
	}
}

func (r *rig) stop() {
	for _, s := range []Stream{r.a, r.b, r.d} {
		_ = s.Close()
	}
}

func row(v float32) []wire.Tensor { return []wire.Tensor{wire.FromFloat32([]float32{v}, 1)} }

// send sends a part with such values.
func (r *rig) send(to Stream, id uint64, p Part, values ...float32) {
	b := &Batch{ID: id, Part: p, Due: time.Now().Add(time.Second)}
	for _, v := range values {
		b.Items = append(b.Items, row(v))
	}
	require.NoError(r.t, to.Send(&Message{Batch: b}))
}

// answered expects the result of a part.
func (r *rig) answered(from Stream, id uint64, values ...float32) {
	r.t.Helper()
	m, err := from.Recv()
	require.NoError(r.t, err)
	require.NotNil(r.t, m.Result, "%+v", m)
	require.Equal(r.t, id, m.Result.ID)
	require.Nil(r.t, m.Result.Err)
	require.Len(r.t, m.Result.Items, len(values))
	for i, v := range values {
		got, _ := m.Result.Items[i][0].Float32s()
		require.Equal(r.t, v, got[0])
	}
}

func (r *rig) refused(from Stream, id uint64) {
	r.t.Helper()
	m, err := from.Recv()
	require.NoError(r.t, err)
	require.Equal(r.t, id, m.Result.ID)
	require.Equal(r.t, wire.CodeUnavailable, m.Result.Err.Code)
}

func (r *rig) done(epoch, batch uint64) {
	r.t.Helper()
	m, err := r.d.Recv()
	require.NoError(r.t, err)
	require.NotNil(r.t, m.Done, "%+v", m)
	require.Equal(r.t, [2]uint64{epoch, batch}, [2]uint64{m.Done.Epoch, m.Done.Batch})
}

func (r *rig) follow(epoch uint64) {
	require.NoError(r.t, r.d.Send(&Message{Owner: &Owner{Epoch: epoch}}))
	synctest.Wait()
}

func of(epoch, batch uint64, part, parts int) Part {
	return Part{Epoch: epoch, Batch: batch, Part: part, Parts: parts}
}

func with(t *testing.T, f func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.follow(1)
		f(r)
		r.stop()
	})
}

func TestPartsRunTogether(t *testing.T) {
	with(t, func(r *rig) {
		r.send(r.a, 7, of(1, 1, 0, 2), 1, 2)
		synctest.Wait()
		assert.Empty(t, r.runs, "it waits for the other part")
		r.send(r.b, 3, of(1, 1, 1, 2), 5)
		r.answered(r.a, 7, 1001, 1002)
		r.answered(r.b, 3, 1005)
		r.done(1, 1)
		assert.Equal(t, 3, <-r.runs)
		// A batch of its own passes, and so does one of a single part.
		r.send(r.a, 8, Part{}, 4)
		r.answered(r.a, 8, 1004)
		r.send(r.b, 4, of(1, 2, 0, 1), 6)
		r.answered(r.b, 4, 1006)
		r.done(1, 2)
	})
}

func TestABatchRunsWithoutThePartsOfAGatewayThatIsGone(t *testing.T) {
	with(t, func(r *rig) {
		begin := time.Now()
		r.send(r.a, 1, of(1, 1, 0, 2), 1)
		require.NoError(t, r.d.Send(&Message{Skip: &Skip{Part: of(1, 1, 1, 2)}}))
		r.answered(r.a, 1, 1001)
		r.done(1, 1)
		assert.Zero(t, time.Since(begin))
		// Skip may arrive before the other part, and for all parts.
		require.NoError(t, r.d.Send(&Message{Skip: &Skip{Part: of(1, 2, 1, 2)}}))
		synctest.Wait()
		r.send(r.a, 2, of(1, 2, 0, 2), 2)
		r.answered(r.a, 2, 1002)
		r.done(1, 2)
		require.NoError(t, r.d.Send(&Message{Skip: &Skip{Part: of(1, 3, 0, 1)}}))
		r.done(1, 3)
		// A gateway that has nothing left to send sends an empty part.
		r.send(r.b, 0, of(1, 4, 1, 2))
		synctest.Wait()
		r.send(r.a, 3, of(1, 4, 0, 2), 3)
		r.answered(r.a, 3, 1003)
		r.done(1, 4)
	})
}

func TestABatchDoesNotWaitForLong(t *testing.T) {
	with(t, func(r *rig) {
		begin := time.Now()
		r.send(r.a, 1, of(1, 1, 0, 2), 1)
		r.answered(r.a, 1, 1001)
		r.done(1, 1)
		assert.Equal(t, AssemblyPatience, time.Since(begin))
		r.send(r.b, 9, of(1, 1, 1, 2), 2)
		r.refused(r.b, 9)
		// Nobody is left to answer to: the dispatcher gets its executor back.
		r.send(r.a, 2, of(1, 2, 0, 2), 1)
		synctest.Wait()
		require.NoError(t, r.a.Close())
		r.done(1, 2)
	})
}

func TestTheHighestEpochIsObeyed(t *testing.T) {
	with(t, func(r *rig) {
		r.send(r.a, 1, of(1, 1, 0, 2), 1)
		synctest.Wait()
		r.send(r.b, 1, of(2, 1, 0, 1), 5) // by a dispatcher that has not attached yet
		r.answered(r.b, 1, 1005)
		r.send(r.b, 2, of(1, 1, 1, 2), 2)
		r.refused(r.b, 2)
		r.answered(r.a, 1, 1001) // what it holds is computed all the same
		r.follow(2)
		r.send(r.a, 2, of(2, 2, 0, 1), 3)
		r.answered(r.a, 2, 1003)
		m, err := r.d.Recv()
		for err == nil && m.Done.Epoch < 2 {
			m, err = r.d.Recv()
		}
		require.NoError(t, err)
		require.EqualValues(t, 1, m.Done.Batch, "that ended before")
		r.done(2, 2)
	})
}

func TestAnEngineThatIsAwayIsReportedToAll(t *testing.T) {
	with(t, func(r *rig) {
		r.away = true
		r.send(r.a, 1, of(1, 1, 0, 2), 1)
		r.send(r.b, 2, of(1, 1, 1, 2), 2)
		for _, s := range []Stream{r.a, r.b} {
			m, err := s.Recv()
			require.NoError(t, err)
			require.True(t, m.Result.Away)
			m, err = s.Recv()
			require.NoError(t, err)
			require.NotNil(t, m.Ready)
		}
		m, err := r.d.Recv()
		require.NoError(t, err)
		require.True(t, m.Done.Away)
		m, err = r.d.Recv()
		require.NoError(t, err)
		require.NotNil(t, m.Ready)
	})
}

// A gateway may see a new owner before the owner's stream reports it: the end of the batch must
// not be lost, or its lane would be busy for ever.
func TestAnEndWaitsForItsDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.away = true
		r.send(r.a, 1, of(7, 1, 0, 1), 5)
		r.answered(r.a, 1, 1005)
		synctest.Wait()
		r.follow(7)
		r.done(7, 1)
		m, err := r.d.Recv()
		require.NoError(t, err)
		require.NotNil(t, m.Ready, "%+v", m)
	})
}

// Ends that no dispatcher fetches do not pile up, and are not sent to another.
func TestEndsWithoutADispatcherAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		for i := range uint64(memory + 10) {
			r.send(r.a, i, of(7, i, 0, 1), 5)
			r.answered(r.a, i, 1005)
		}
		r.follow(8)
		r.send(r.a, 1000, of(8, 1, 0, 1), 5)
		r.answered(r.a, 1000, 1005)
		r.done(8, 1)
	})
}

// A dispatcher that owns by an epoch which is too low here has all of its parts refused, and
// only the executor can report why.
func TestADispatcherReceivesAHigherEpoch(t *testing.T) {
	hears := func(t *testing.T, s Stream, epoch uint64) {
		m, err := s.Recv()
		require.NoError(t, err)
		require.NotNil(t, m.Owner, "%+v", m)
		require.Equal(t, epoch, m.Owner.Epoch)
	}
	owns := func(t *testing.T, s Stream, epoch uint64) {
		require.NoError(t, s.Send(&Message{Owner: &Owner{Epoch: epoch}}))
		synctest.Wait()
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.follow(3)
		owns(t, r.b, 9) // another dispatcher
		require.NoError(t, r.b.Close())
		hears(t, r.d, 9)
		owns(t, r.d, 5) // not enough
		hears(t, r.d, 9)
		owns(t, r.d, 10)
		r.send(r.a, 1, of(10, 1, 0, 1), 5)
		r.answered(r.a, 1, 1005)
		r.done(10, 1)
	})
}

// A dispatcher that owns a service again waits for the ends of what it began before.
func TestASkippedPartOfAnOwnerThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.stop()
		r.follow(1)
		r.send(r.a, 1, of(2, 7, 0, 1), 1) // by a newer owner, through a gateway
		r.answered(r.a, 1, 1001)
		p := of(1, 3, 0, 1) // its gateway is gone
		require.NoError(t, r.d.Send(&Message{Skip: &Skip{Part: p}}))
		m, err := r.d.Recv()
		require.NoError(t, err)
		if m.Owner != nil { // of the newer one
			m, err = r.d.Recv()
			require.NoError(t, err)
		}
		require.NotNil(t, m.Done)
		require.Equal(t, Done{Epoch: 1, Batch: 3}, *m.Done)
	})
}
