package httpapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// arrivalKey is the key of the connection in the context of its requests.
type arrivalKey struct{}

// dated is a connection that knows when what was read last had come.
type dated interface{ came() time.Time }

// withArrival notes the connection for arrivalOf.
func withArrival(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if d, ok := c.(dated); ok {
		return context.WithValue(ctx, arrivalKey{}, d)
	}
	return ctx
}

// arrivalOf is when the last that was read of a request came to this machine, which
// on a busy one can be long before it is read; zero where that is unknown. Streams
// of HTTP/2 share a connection, so nothing is known of them.
func arrivalOf(r *http.Request) time.Time {
	d, ok := r.Context().Value(arrivalKey{}).(dated)
	if !ok || r.ProtoMajor != 1 {
		return time.Time{}
	}
	return d.came()
}
