package grpcapi

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/harpagon/harpagon/wire/listen"
)

// A gRPC server tells its handlers of a connection nothing but the addresses. So that of
// the other side tells when data came.
type datedAddr struct {
	net.Addr
	came func() time.Time
}

// datedListener gives its connections such addresses.
type datedListener struct{ net.Listener }

// Accept implements net.Listener.
func (l datedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if came := listen.Arrival(c); came != nil {
		return &datedConn{c, datedAddr{c.RemoteAddr(), came}}, nil
	}
	return c, nil
}

type datedConn struct {
	net.Conn
	remote datedAddr
}

// RemoteAddr implements net.Conn.
func (c *datedConn) RemoteAddr() net.Addr { return c.remote }

// arrivalOf is when the last came that was read of the connection of a call; zero where
// that is unknown. Its calls share the connection, so the call itself may have come
// somewhat before: what is read while it waits for its goroutine is newer. But on a
// machine that is busy, what is read last is long since there, too.
func arrivalOf(ctx context.Context) time.Time {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(datedAddr); ok {
			return a.came()
		}
	}
	return time.Time{}
}
