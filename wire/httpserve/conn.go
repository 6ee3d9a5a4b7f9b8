package httpserve

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/harpagon/harpagon/wire/listen"
)

// States of a connection.
const (
	waiting = iota // for the head of a request
	active
	closed
)

const (
	mostHead    = 4 << 10                // bytes
	mostDrained = 256 << 10              // bytes of a body that the handler has left
	lingering   = 500 * time.Millisecond // for a client that is sending, to read why it should not
)

// conn is a connection whose requests are served one after the other by one goroutine.
type conn struct {
	net.Conn
	server *server
	client *client
	base   context.Context // of its requests
	remote string
	tls    *tls.ConnectionState // nil without TLS and before the first request
	leave  func()               // gives back the turn to be read, see listen.Gate
	in     *bufio.Reader
	out    *bufio.Writer
	state  atomic.Int32
}

func newConn(s *server, nc net.Conn, client *client) *conn {
	c := &conn{Conn: nc, server: s, client: client, base: s.others.ConnContext(s.base, nc), leave: listen.YieldTurn(nc)}
	if at := nc.RemoteAddr(); at != nil {
		c.remote = at.String()
	}
	c.in, c.out = bufio.NewReaderSize(nc, mostHead), bufio.NewWriterSize(nc, mostHead)
	return c
}

// serve serves requests until the connection is closed or handed over.
func (c *conn) serve() {
	handed := false
	defer func() {
		if c.server.drop(c); !handed {
			_ = c.Close()
		}
	}()
	if !c.shake() {
		handed = c.give(c.Conn)
		return
	}
	for wait, posted := c.server.options.HeaderTime, false; ; wait = c.server.options.IdleTime {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		if _, err := c.in.Peek(1); err != nil {
			return
		}
		head, err := c.head(posted)
		if err != nil {
			return
		}
		r := parse(head)
		if r == nil {
			handed = c.give(c.rest())
			return
		}
		if !c.state.CompareAndSwap(waiting, active) {
			return
		}
		posted = r.Method == http.MethodPost
		_, _ = c.in.Discard(len(head))
		if !c.answer(r) || !c.rests() {
			return
		}
	}
}

// shake agrees on TLS, where the connection has it; false where net/http is to go on: with
// HTTP/2, and with what is no TLS, to which it says so.
func (c *conn) shake() bool {
	t, ok := c.Conn.(*tls.Conn)
	if !ok {
		return true
	}
	_ = c.SetDeadline(time.Now().Add(c.server.options.HeaderTime))
	err := t.HandshakeContext(c.base)
	_ = c.SetDeadline(time.Time{})
	return err == nil && t.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS
}

// give hands the connection over, unless the server has closed it.
func (c *conn) give(nc net.Conn) bool {
	if !c.state.CompareAndSwap(waiting, active) {
		return false
	}
	c.server.handed.give(nc)
	return true
}

// rests is between two requests; it is false when there will be no next one.
func (c *conn) rests() bool {
	c.state.Store(waiting)
	return !c.server.closing.Load() || !c.state.CompareAndSwap(waiting, closed)
}

// A head ends with an empty line, of which not everybody writes the carriage return.
var (
	headEnd   = []byte("\n\r\n")
	otherwise = []byte("\n\n")
)

// head is the head of the next request, which stays in the buffer; nil where it does not
// fit there or ends otherwise than heads do. An empty line before it is left out where a
// POST was before that: some clients send one.
func (c *conn) head(posted bool) ([]byte, error) {
	for timed := false; ; {
		b, _ := c.in.Peek(c.in.Buffered())
		for posted && len(b) > 0 && (b[0] == '\r' || b[0] == '\n') {
			_, _ = c.in.Discard(1)
			b = b[1:]
		}
		i := bytes.Index(b, headEnd)
		if i >= 0 {
			b = b[:i+len(headEnd)]
		}
		switch {
		case bytes.Contains(b, otherwise):
			return nil, nil
		case i >= 0:
			return b, nil
		case len(b) >= c.in.Size():
			return nil, nil
		}
		if !timed {
			timed = true
			_ = c.SetReadDeadline(time.Now().Add(c.server.options.HeaderTime))
		}
		if _, err := c.in.Peek(len(b) + 1); err != nil {
			return nil, err
		}
	}
}

// rest is the connection with what was read of it and not used.
func (c *conn) rest() net.Conn {
	_ = c.SetDeadline(time.Time{})
	ahead, _ := c.in.Peek(c.in.Buffered())
	handed := &handedConn{Conn: c.Conn, ahead: ahead}
	if state := c.secure(); state != nil {
		return &handedTLS{handed, state}
	}
	return handed
}

// secure is what is known of the connection's TLS; nil without.
func (c *conn) secure() *tls.ConnectionState {
	if t, ok := c.Conn.(*tls.Conn); ok && c.tls == nil {
		state := t.ConnectionState()
		c.tls = &state
	}
	return c.tls
}

// answer has the handler answer a request, and reports whether another may follow.
func (c *conn) answer(r *http.Request) bool {
	body := &body{in: c.in, left: r.ContentLength, whole: c.leave}
	r.RemoteAddr, r.TLS, r.Body = c.remote, c.secure(), http.NoBody
	if body.left > 0 {
		r.Body = body
		if int64(c.in.Buffered()) < body.left {
			_ = c.SetReadDeadline(time.Now().Add(c.server.options.HeaderTime))
		}
	} else {
		c.leave()
	}
	w := newWriter(c, body)
	whole := c.handle(w, r)
	body.closed = true
	again := whole && w.finish() == nil && !w.close
	if body.left == 0 {
		return again
	}
	return c.drain(body, again)
}

// handle reports whether the handler came to its end, which ends the request's context.
func (c *conn) handle(w http.ResponseWriter, r *http.Request) (whole bool) {
	ctx, cancel := context.WithCancel(c.base)
	c.server.clients.begin(c.client, cancel)
	defer func() {
		c.server.clients.end(c.client)
		cancel()
		if why := recover(); why != nil && why != http.ErrAbortHandler {
			log.Printf("harpagon: panic while a request of %s was served: %v\n%s", r.RemoteAddr, why, debug.Stack())
		}
	}()
	c.server.handler.ServeHTTP(w, r.WithContext(ctx))
	return true
}

// drain reads what the handler has left of a body, so that the next request follows.
// Where that is much, or the connection is to be closed, the client gets some time to
// read the answer: closing while it sends would take it away.
func (c *conn) drain(b *body, again bool) bool {
	wait, most := c.server.options.HeaderTime, b.left
	if again = again && b.left <= mostDrained; !again {
		wait, most = lingering, 1<<62
	}
	_ = c.SetReadDeadline(time.Now().Add(wait))
	n, err := io.CopyN(io.Discard, c.in, most)
	c.leave()
	return again && err == nil && n == most
}

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
