package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/harpagon/harpagon/wire/listen"
)

// arrivalKey is the key of listen.Arrival in the context of a connection's requests.
type arrivalKey struct{}

// withArrival notes the connection for arrivalOf.
func withArrival(ctx context.Context, c net.Conn) context.Context {
	if came := listen.Arrival(c); came != nil {
		return context.WithValue(ctx, arrivalKey{}, came)
	}
	return ctx
}

// arrivalOf is when the last that was read of a request came to this machine, which
// on a busy one can be long before it is read; zero where that is unknown. Streams
// of HTTP/2 share a connection, so nothing is known of them.
func arrivalOf(r *http.Request) time.Time {
	came, ok := r.Context().Value(arrivalKey{}).(func() time.Time)
	if !ok || r.ProtoMajor != 1 {
		return time.Time{}
	}
	return came()
}
