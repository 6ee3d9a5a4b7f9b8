package httpapi

import (
	"context"
	"net"
	"net/http"
	"time"
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
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, ConnContext: withArrival}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	err := s.Shutdown(grace)
	if err != nil {
		_ = s.Close()
	}
	<-done
	return err
}
