package listen

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing fails to accept a few times.
type failing struct {
	net.Listener
	times int
}

func (l *failing) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, errors.New("too many open files")
	}
	return l.Listener.Accept()
}

// TestEach: accepting goes on after failures, ends with life, and reports why it ended before.
func TestEach(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	life, end := context.WithCancel(t.Context())
	came, over := make(chan net.Conn), make(chan error)
	go func() { over <- ServeEach(life, &failing{inner, 2}, func(c net.Conn) { came <- c }) }()
	for range 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.NoError(t, (<-came).Close())
	}
	end()
	require.NoError(t, <-over)
	_, err = net.Dial("tcp", inner.Addr().String())
	require.Error(t, err)

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.ErrorIs(t, ServeEach(t.Context(), closed, nil), net.ErrClosed)
}
