package httpserve

import (
	"crypto/tls"
	"net"
	"sync"
)

// handedListener is where net/http accepts the connections that are its.
type handedListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandedListener() *handedListener {
	return &handedListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// give hands a connection over, or closes it where nobody accepts any more.
func (l *handedListener) give(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.closed:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (l *handedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *handedListener) Addr() net.Addr { return &net.UnixAddr{Name: "handed over", Net: "memory"} }

// handedConn is a connection of which something was read already.
type handedConn struct {
	net.Conn
	ahead []byte
}

// NetConn is the connection below.
func (c *handedConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *handedConn) Read(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		c.ahead = nil
		return c.Conn.Read(p)
	}
	n := copy(p, c.ahead)
	c.ahead = c.ahead[n:]
	return n, nil
}

// handedTLS is one with TLS, which net/http asks for.
type handedTLS struct {
	*handedConn
	state *tls.ConnectionState
}

// ConnectionState is for net/http.
func (c *handedTLS) ConnectionState() tls.ConnectionState { return *c.state }
