package httpserve

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/harpagon/harpagon/wire/listen"
)

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
