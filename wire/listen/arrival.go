package listen

import (
	"net"
	"time"
)

// dated is a connection that knows when what was read last had come.
type dated interface{ arrival() time.Time }

// Arrival tells when what was read last from a connection came to this machine, which on
// a busy one can be long before it is read; zero where that is not known yet. It is nil
// where it cannot be known. What wraps a connection, as TLS does, is looked through.
func Arrival(c net.Conn) func() time.Time {
	for c != nil {
		if d, ok := c.(dated); ok {
			return d.arrival
		}
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		c = w.NetConn()
	}
	return nil
}
