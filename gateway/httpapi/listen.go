package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/harpagon/harpagon/wire/httpserve"
	"github.com/harpagon/harpagon/wire/listen"
)

// shutdownTime is what requests under way get when the server stops. The other limits are
// those of all ports, see listen.Server.
const shutdownTime = 10 * time.Second

// Serve serves until ctx ends; then requests under way may finish for a while.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	return httpserve.Serve(ctx, l, h, httpserve.Options{
		HeaderTime: listen.HeadTime, IdleTime: listen.IdleTime, ShutdownTime: shutdownTime,
	})
}
