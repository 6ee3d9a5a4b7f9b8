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
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire/listen"
)

// States of a connection.
const (
	waiting = iota // for the first byte of a request
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
	timed  bool // a deadline for writing was set
	state  atomic.Int32
}

func newConn(s *server, nc net.Conn, client *client) *conn {
	c := &conn{Conn: nc, server: s, client: client, base: s.options.ConnContext(s.base, nc), leave: listen.Turn(nc)}
	if at := nc.RemoteAddr(); at != nil {
		c.remote = at.String()
	}
	c.in, c.out = bufio.NewReaderSize(nc, mostHead), bufio.NewWriterSize(nc, mostHead)
	return c
}

// serve serves requests until the connection is closed or handed over.
func (c *conn) serve() {
	for wait := c.server.options.HeaderTime; ; wait = c.server.options.IdleTime {
		_ = c.SetReadDeadline(time.Now().Add(wait))
		if _, err := c.in.Peek(1); err != nil || !c.state.CompareAndSwap(waiting, active) {
			break
		}
		head, err := c.head()
		if err != nil {
			break
		}
		r := parse(head)
		if r == nil {
			c.server.drop(c)
			c.server.handed.give(c.rest())
			return
		}
		_, _ = c.in.Discard(len(head))
		if !c.answer(r) || !c.rests() {
			break
		}
	}
	c.server.drop(c)
	_ = c.Close()
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
// fit there or ends otherwise than heads do.
func (c *conn) head() ([]byte, error) {
	for timed := false; ; {
		b, _ := c.in.Peek(c.in.Buffered())
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
	_ = c.SetReadDeadline(time.Time{})
	ahead, _ := c.in.Peek(c.in.Buffered())
	return &handedConn{Conn: c.Conn, ahead: ahead, tls: c.secure()}
}

// secure is what is known of the connection's TLS; nil without.
func (c *conn) secure() *tls.ConnectionState {
	if t, ok := c.Conn.(*tls.Conn); ok && c.tls == nil {
		state := t.ConnectionState()
		c.tls = &state
	}
	return c.tls
}

// answer has the handler answer a request, and says whether another may follow.
func (c *conn) answer(r *http.Request) bool {
	ctx, cancel := context.WithCancel(c.base)
	defer cancel()
	body := &body{in: c.in, left: r.ContentLength, whole: c.leave}
	r = r.WithContext(ctx)
	r.RemoteAddr, r.TLS, r.Body = c.remote, c.secure(), http.NoBody
	if body.left > 0 {
		r.Body = body
	} else {
		c.leave()
	}
	w := newWriter(c, body)
	c.server.clients.begin(c.client, cancel)
	whole := handle(c.server.handler, w, r)
	c.server.clients.end(c.client)
	body.closed = true
	again := whole && w.finish() == nil && !w.close
	if body.left == 0 {
		return again
	}
	return c.drain(body, again)
}

// handle says whether the handler came to its end.
func handle(h http.Handler, w http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		if why := recover(); why != nil && why != http.ErrAbortHandler {
			log.Printf("harpagon: panic while a request of %s was served: %v\n%s", r.RemoteAddr, why, debug.Stack())
		}
	}()
	h.ServeHTTP(w, r)
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
