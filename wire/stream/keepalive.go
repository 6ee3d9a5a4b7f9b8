package stream

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// DefaultSilence is how long the other side may be silent after a ping.
const DefaultSilence = 600 * time.Millisecond

const (
	looks     = 4 // within the patience
	idleLooks = 8 // before a ping while nothing is expected of it
)

// ErrSilent means that the other side does not answer, although the connection stands.
var ErrSilent = errors.New("keepalive: the other side is silent: it was stopped, or the network between is cut")

// LiveConn is a connection that notes when anything has come over it.
type LiveConn struct {
	net.Conn
	heard atomic.Uint64 // reads that have brought something
}

// keepAlive watches a connection.
func keepAlive(c net.Conn) *LiveConn { return &LiveConn{Conn: c} }

// Read implements net.Conn.
func (c *LiveConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Add(1)
	}
	return n, err
}

// Reads is how many reads have brought something.
func (c *LiveConn) Reads() uint64 { return c.heard.Load() }

// Listen returns true once the other side has been silent for the patience after a ping, and
// false when done is closed. Patience 0 is DefaultSilence; negative is patience without end.
// Where nothing has come for a quarter of the patience, or twice the patience if busy reports
// that nothing is expected, ask sends a ping. ask must not block.
func (c *LiveConn) Listen(done <-chan struct{}, patience time.Duration, busy func() bool, ask func()) (silent bool) {
	switch {
	case patience < 0:
		<-done
		return false
	case patience == 0:
		patience = DefaultSilence
	}
	tick := time.NewTicker(max(patience/looks, time.Millisecond))
	defer tick.Stop()
	last := c.heard.Load()
	for quiet, asked := 0, 0; ; {
		select {
		case <-tick.C:
		case <-done:
			return false
		}
		quiet++
		now := c.heard.Load()
		switch {
		case now != last:
			last, quiet, asked = now, 0, 0
		case asked == looks:
			return true
		case asked > 0, quiet >= idleLooks, busy():
			asked++
			ask()
		}
	}
}
