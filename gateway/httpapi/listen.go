package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"
)

// Times that the server grants. Answers have no time limit of their own: a
// request's deadline bounds them.
const (
	headerTime   = 10 * time.Second
	idleTime     = 2 * time.Minute
	shutdownTime = 10 * time.Second
)

// Listen opens the address for HTTP. It refuses one that other hosts can reach
// unless there is a token to keep strangers out.
func Listen(address, token string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("httpapi: address %q is not HOST:PORT, for example 127.0.0.1:8000: %w", address, err)
	}
	if token == "" && !loopback(host) {
		return nil, fmt.Errorf("httpapi: %q can be reached from other hosts; set a token for the gateway, or listen on 127.0.0.1:%s", address, port)
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("httpapi: port %s on %s is in use by another program; stop that, or choose another port (0 takes any that is free): %w", port, host, err)
	case err != nil:
		return nil, fmt.Errorf("httpapi: cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// loopback says that only this host reaches the address. An empty host means
// all interfaces.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Serve serves until ctx ends; then requests under way may finish for a while.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime}
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
