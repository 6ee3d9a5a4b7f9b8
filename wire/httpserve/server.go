package httpserve

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/wire/listen"
)

// Options are what a server grants; times are above 0. The rest is as with listen.Server.
type Options struct {
	// HeaderTime is for a connection's first byte, for a head from its first byte on, and
	// then for the body, unless the handler sets another deadline.
	HeaderTime   time.Duration
	IdleTime     time.Duration // until the next request begins
	ShutdownTime time.Duration // for requests under way, when the server stops
}

// Serve serves until ctx ends; then requests under way may finish for a while.
func Serve(ctx context.Context, l net.Listener, h http.Handler, o Options) error {
	s := newServer(ctx, h, o)
	served := make(chan error, 1)
	go func() { served <- s.others.Serve(s.handed) }()
	err := listen.ServeEach(ctx, l, s.take)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.ShutdownTime)
	defer cancel()
	if late := s.shutdown(grace); err == nil {
		err = late
	}
	<-served
	return err
}

// server serves plain requests itself and has net/http serve the others.
type server struct {
	handler http.Handler
	options Options
	base    context.Context // of requests
	end     context.CancelFunc
	watched func(net.Conn) (*client, bool)
	clients clients

	others *http.Server
	handed *handedListener

	closing atomic.Bool
	mu      sync.Mutex
	conns   map[*conn]bool
	all     sync.WaitGroup
}

func newServer(ctx context.Context, h http.Handler, o Options) *server {
	s := &server{options: o, watched: clientOf, handed: newHandedListener(), conns: map[*conn]bool{}}
	s.base, s.end = context.WithCancel(context.WithoutCancel(ctx))
	s.others = listen.Server(h)
	s.handler = s.others.Handler
	s.others.ReadHeaderTimeout, s.others.IdleTimeout = o.HeaderTime, o.IdleTime
	s.others.BaseContext = func(net.Listener) context.Context { return s.base }
	return s
}

// take starts to serve a connection.
func (s *server) take(nc net.Conn) {
	client, ok := s.watched(nc)
	if !ok {
		s.handed.give(nc)
		return
	}
	c := newConn(s, nc, client)
	s.mu.Lock()
	s.conns[c] = true
	s.mu.Unlock()
	s.clients.add(client)
	s.all.Go(c.serve)
}

// drop forgets a connection that is closed or handed over.
func (s *server) drop(c *conn) {
	s.clients.remove(c.client)
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// shutdown closes connections that wait for a request and waits for the others until
// grace ends, which closes them and ends their requests.
func (s *server) shutdown(grace context.Context) error {
	defer s.end()
	s.closing.Store(true)
	s.each(func(c *conn) {
		if c.state.CompareAndSwap(waiting, closed) {
			_ = c.Close()
		}
	})
	ended := make(chan struct{})
	go func() {
		s.all.Wait()
		close(ended)
	}()
	err := s.others.Shutdown(grace)
	if err != nil {
		_ = s.others.Close()
	}
	select {
	case <-ended:
	case <-grace.Done():
		err = grace.Err()
		s.end()
		s.each(func(c *conn) { _ = c.Close() })
		<-ended
	}
	return err
}

func (s *server) each(do func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		do(c)
	}
}

// lookEvery is how often it is looked whether clients are still there.
const lookEvery = 50 * time.Millisecond

// client is the other end of a connection.
type client struct {
	raw syscall.RawConn

	mu     sync.Mutex
	cancel context.CancelFunc // of the request under way; nil without
	looked bool               // since it began
}

// clientOf is the client of a connection; false where it cannot be watched.
func clientOf(c net.Conn) (*client, bool) {
	s, ok := listen.Layer[syscall.Conn](c)
	if !ok || !watches {
		return nil, false
	}
	raw, err := s.SyscallConn()
	return &client{raw: raw}, err == nil
}

// clients ends the requests of clients that have hung up, within two times lookEvery. It
// looks while there are requests. A client that only ends TLS, and not the connection, has
// not hung up.
type clients struct {
	under atomic.Int64 // requests under way
	armed atomic.Bool  // a look is to come

	mu  sync.Mutex
	all map[*client]bool
}

func (s *clients) add(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*client]bool{}
	}
	s.all[c] = true
}

func (s *clients) remove(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, c)
}

// begin says that a request of the client is under way, which cancel ends.
func (s *clients) begin(c *client, cancel context.CancelFunc) {
	c.mu.Lock()
	c.cancel, c.looked = cancel, false
	c.mu.Unlock()
	s.under.Add(1)
	s.arm()
}

// end says that it has ended.
func (s *clients) end(c *client) {
	c.mu.Lock()
	c.cancel = nil
	c.mu.Unlock()
	s.under.Add(-1)
}

func (s *clients) arm() {
	if !s.armed.Load() && s.armed.CompareAndSwap(false, true) {
		time.AfterFunc(lookEvery, s.look)
	}
}

// look looks at those whose requests were under way at the look before, too: most end
// sooner, and nothing is spent on them.
func (s *clients) look() {
	s.mu.Lock()
	for c := range s.all {
		c.look()
	}
	s.mu.Unlock()
	s.armed.Store(false)
	if s.under.Load() > 0 {
		s.arm()
	}
}

func (c *client) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cancel == nil:
	case !c.looked:
		c.looked = true
	case gone(c.raw):
		c.cancel()
		c.cancel = nil
	}
}
