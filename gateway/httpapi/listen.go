package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/harpagon/harpagon/wire/httpserve"
)

// Times that the server grants. Answers have no time limit of their own: a
// request's deadline bounds them.
const (
	headerTime   = 10 * time.Second
	bodyTime     = time.Minute // for the largest body, at a megabyte a second
	idleTime     = 2 * time.Minute
	shutdownTime = 10 * time.Second
)

// Serve serves until ctx ends; then requests under way may finish for a while.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return httpserve.Serve(ctx, l, h, httpserve.Options{
		HeaderTime: headerTime, IdleTime: idleTime, ShutdownTime: shutdownTime, ConnContext: withArrival,
	})
}
