package stream

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// ears are two ends of a connection of which one listens.
type ears struct {
	near  *LiveConn
	far   net.Conn
	asked []time.Duration // since the beginning
	heard time.Duration   // when the end was found silent; 0 when it was not
	done  chan struct{}
}

func listen(patience time.Duration, busy, answers bool) *ears {
	near, far := net.Pipe()
	e := &ears{near: keepAlive(near), far: far, done: make(chan struct{})}
	began := time.Now()
	go func() { _, _ = io.Copy(io.Discard, e.near) }()
	go func() {
		ask := func() {
			e.asked = append(e.asked, time.Since(began))
			if answers {
				_, _ = far.Write([]byte("!"))
			}
		}
		if e.near.Listen(e.done, patience, func() bool { return busy }, ask) {
			e.heard = time.Since(began)
		}
	}()
	return e
}

func TestSilence(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		patience      time.Duration
		busy, answers bool
		silent        time.Duration
		first         time.Duration // when the first ping is sent
	}{
		"silent while something is expected": {patience: 400 * ms, busy: true, first: 100 * ms, silent: 500 * ms},
		"silent while nothing is":            {patience: 400 * ms, first: 800 * ms, silent: 1200 * ms},
		"by default":                         {busy: true, first: 150 * ms, silent: 750 * ms},
		"answers":                            {patience: 400 * ms, busy: true, answers: true, first: 100 * ms},
		"answers while nothing is expected":  {patience: 400 * ms, answers: true, first: 800 * ms},
		"patience without end":               {patience: -1, busy: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := listen(c.patience, c.busy, c.answers)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(t, c.silent, e.heard)
				if c.first > 0 {
					require.Equal(t, c.first, e.asked[0])
				} else {
					require.Empty(t, e.asked)
				}
				close(e.done)
				_, _ = e.near.Close(), e.far.Close()
			})
		})
	}
}

// TestBytesAreASignOfLife: a side that sends is never pinged.
func TestBytesAreASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listen(400*time.Millisecond, true, false)
		for range 1000 {
			_, err := e.far.Write([]byte("part of something large"))
			require.NoError(t, err)
			time.Sleep(90 * time.Millisecond)
		}
		require.Empty(t, e.asked)
		require.Zero(t, e.heard)
		close(e.done)
		_, _ = e.near.Close(), e.far.Close()
	})
}
