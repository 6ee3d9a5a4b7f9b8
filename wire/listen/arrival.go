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
	if d, ok := Layer[dated](c); ok {
		return d.arrival
	}
	return nil
}

// Layer is the connection itself or what it wraps, as TLS does, by what it can do or is; false
// where there is none.
func Layer[T any](c net.Conn) (layer T, ok bool) {
	for c != nil {
		if layer, ok = c.(T); ok {
			return layer, true
		}
		w, wraps := c.(interface{ NetConn() net.Conn })
		if !wraps {
			break
		}
		c = w.NetConn()
	}
	return layer, false
}
