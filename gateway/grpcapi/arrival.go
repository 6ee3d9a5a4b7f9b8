package grpcapi

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/harpagon/harpagon/wire/listen"
)

// A gRPC server tells its handlers of a connection nothing but the addresses. So that of
// the other side leads to the connection.
type address struct {
	net.Addr
	of *conn
}

// listener gives its connections such addresses.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, came: listen.Arrival(c), place: listen.PlaceOf(c)}, nil
}

// conn is one connection of callers.
type conn struct {
	net.Conn
	came   func() time.Time // when data came; nil where that is unknown
	unread unread
	place  *listen.Place // among those of the port; nil for none

	heading uint32 // stream of the headers that were read last; of who reads

	mu    sync.Mutex
	calls map[uint32]*call // by stream
	watch *time.Timer      // runs while there may be any
	ended bool
}

// NetConn is the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.unread.end()
	c.closed()
	return err
}

// connOf is the connection of a call; nil where another listener has accepted it.
func connOf(ctx context.Context) *conn {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(address); ok {
			return a.of
		}
	}
	return nil
}

// working says that a request that was read is under way, until done.
func (c *conn) working() (done func()) {
	if c == nil {
		return func() {}
	}
	c.place.Begin()
	return c.place.End
}

// arrival is when the last came that was read of the connection; zero where that is unknown.
// Its calls share the connection, so a call itself may have come somewhat before: what is
// read while it waits for its goroutine is newer. But on a machine that is busy, what is
// read last is long since there, too.
func (c *conn) arrival() time.Time {
	if c == nil || c.came == nil {
		return time.Time{}
	}
	return c.came()
}
