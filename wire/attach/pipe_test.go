package attach

import (
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func batch(id uint64) *Message { return &Message{Batch: &Batch{ID: id}} }

func TestPipeKeepsOrderAndDeliversBeforeEOF(t *testing.T) {
	a, b := Pipe()
	const n = 100
	for i := range uint64(n) {
		require.NoError(t, a.Send(batch(i)))
	}
	require.NoError(t, a.Close())
	for i := range uint64(n) {
		m, err := b.Recv()
		require.NoError(t, err)
		require.Equal(t, i, m.Batch.ID)
	}
	_, err := b.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, b.Send(batch(1)), io.ErrClosedPipe)
	require.ErrorIs(t, a.Send(batch(1)), errClosed)
	_, err = a.Recv()
	require.ErrorIs(t, err, errClosed)
}

func TestPipeCloseWakesBothReceivers(t *testing.T) {
	a, b := Pipe()
	errs := make(chan error, 2)
	for _, s := range []Stream{a, b} {
		go func() {
			_, err := s.Recv()
			errs <- err
		}()
	}
	require.NoError(t, a.Close())
	require.Error(t, <-errs)
	require.Error(t, <-errs)
}

func TestPipeBothWaysAtOnce(t *testing.T) {
	a, b := Pipe()
	const n = 1000
	go func() {
		for {
			m, err := b.Recv()
			if err != nil {
				return
			}
			_ = b.Send(&Message{Result: &Result{ID: m.Batch.ID}})
		}
	}()
	go func() {
		for i := range uint64(n) {
			_ = a.Send(batch(i))
		}
	}()
	for i := range uint64(n) {
		m, err := a.Recv()
		require.NoError(t, err)
		require.Equal(t, i, m.Result.ID)
	}
	require.NoError(t, a.Close())
}

func BenchmarkPipeRoundTrip(b *testing.B) {
	here, there := Pipe()
	go func() {
		for {
			m, err := there.Recv()
			if err != nil {
				return
			}
			_ = there.Send(m)
		}
	}()
	m := batch(1)
	b.ReportAllocs()
	for b.Loop() {
		_ = here.Send(m)
		if _, err := here.Recv(); err != nil {
			b.Fatal(err)
		}
	}
	_ = here.Close()
}

func TestAbortDeliversItsError(t *testing.T) {
	a, b := Pipe()
	require.NoError(t, a.Send(batch(1)))
	Abort(a, io.ErrUnexpectedEOF)
	_, err := b.Recv()
	require.NoError(t, err)
	_, err = b.Recv()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestDirectHandlesOnTheSendersGoroutine(t *testing.T) {
	a, b := Pipe()
	require.NoError(t, a.Send(batch(0)))
	var came []uint64
	var fails error
	require.True(t, Direct(b, func(m *Message) error {
		came = append(came, m.Batch.ID)
		return fails
	}))
	require.Equal(t, []uint64{0}, came, "what had come before")
	require.NoError(t, a.Send(batch(1)))
	require.Equal(t, []uint64{0, 1}, came, "before Send returned")
	fails = errors.New("wrong")
	require.NoError(t, a.Send(batch(2)))
	require.ErrorIs(t, a.Send(batch(3)), errClosed)
	require.Equal(t, []uint64{0, 1, 2}, came)
	_, err := b.Recv()
	require.ErrorIs(t, err, fails)
	require.False(t, Direct(nil, nil), "no end of a Pipe")
}

// TestTheEndWaitsForWhatIsHandled closes either end while messages are handled: Recv
// returns when none is any more.
func TestTheEndWaitsForWhatIsHandled(t *testing.T) {
	for range 200 {
		for _, closes := range []string{"sender", "receiver", "handler"} {
			a, b := Pipe()
			ends := map[string]Stream{"sender": a, "receiver": b}
			handled := 0
			Direct(b, func(*Message) error {
				if handled++; handled == 2 && closes == "handler" {
					_ = b.Close()
				}
				return nil
			})
			var senders sync.WaitGroup
			senders.Go(func() {
				for a.Send(batch(1)) == nil {
				}
			})
			if s := ends[closes]; s != nil {
				senders.Go(func() { _ = s.Close() })
			}
			_, err := b.Recv()
			require.Error(t, err)
			_ = handled // a race, were something still handled
			senders.Wait()
		}
	}
}
