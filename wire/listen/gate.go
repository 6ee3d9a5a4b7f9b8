package listen

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/internal/osutil"
)

// Gate is a listener of which only so many connections are read at a time: one that has
// read goes on until it reads again, writes, waits for something else (Caller.Begin), or is
// closed. It is meant for servers that handle what they have read on the goroutine that read
// it, as those of HTTP/1 do.
//
// Beyond the processors' capacity, those that have read wait in turn, and the newest goes
// first: the oldest have waited so long that their requests can hardly be answered in time, and
// where all were read in the order in which they came, soon none would be. Every so many turns
// the oldest goes, so that each gets its refusal.
func Gate(l net.Listener) net.Listener {
	return &gatedListener{Listener: l, gate: &gate{free: readersPerCore * osutil.MostProcessors()}}
}

const (
	readersPerCore = 2
	oldestEvery    = 16               // turns
	mostWait       = 10 * time.Second // in turn; then a connection goes on without one
)

type gatedListener struct {
	net.Listener
	gate *gate
}

// Accept implements net.Listener.
func (l *gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatedConn{Conn: c, gate: l.gate, turn: make(chan struct{}, 1)}, nil
}

// gate hands out turns.
type gate struct {
	mu      sync.Mutex
	free    int
	waiting []*gatedConn // the newest last
	turns   int
}

// enter waits for a turn, and reports whether it has one to give back.
func (g *gate) enter(c *gatedConn) bool {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return true
	}
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	timer := time.NewTimer(mostWait)
	defer timer.Stop()
	select {
	case <-c.turn:
		return true
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting, c); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		return false
	}
	<-c.turn // it came meanwhile
	return true
}

// leave gives a turn to the next.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.waiting)
	if n == 0 {
		g.free++
		return
	}
	next := n - 1
	if g.turns++; g.turns%oldestEvery == 0 {
		next = 0
	}
	c := g.waiting[next]
	g.waiting = slices.Delete(g.waiting, next, next+1)
	c.turn <- struct{}{}
}

// gatedConn reads in turn. One goroutine reads at a time.
type gatedConn struct {
	net.Conn
	gate  *gate
	turn  chan struct{}
	in    atomic.Bool // it has a turn
	waits atomic.Bool // what is read is for later, see wait
}

// wait reports that what the connection has brought waits for others from now on, or no more.
// Meanwhile a server reads whether its client is still there, which takes no turn.
func (c *gatedConn) wait(begin bool) {
	if c == nil {
		return
	}
	if c.waits.Store(begin); begin {
		c.release()
	}
}

// NetConn is the connection below.
func (c *gatedConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *gatedConn) Read(p []byte) (int, error) {
	c.release()
	n, err := c.Conn.Read(p)
	if n > 0 && !c.waits.Load() && c.gate.enter(c) {
		if c.in.Store(true); c.waits.Load() {
			c.release()
		}
	}
	return n, err
}

// Write implements net.Conn. A client may take long to read.
func (c *gatedConn) Write(p []byte) (int, error) {
	c.release()
	return c.Conn.Write(p)
}

// CloseWrite is called by net/http's server to half-close before it waits for its client to
// read the answer.
func (c *gatedConn) CloseWrite() error {
	if below, ok := Layer[interface{ CloseWrite() error }](c.Conn); ok {
		return below.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *gatedConn) Close() error {
	c.release()
	return c.Conn.Close()
}

func (c *gatedConn) release() {
	if c.in.Swap(false) {
		c.gate.leave()
	}
}
