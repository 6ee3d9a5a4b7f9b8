// Package listen opens the ports of a gateway with the rules that hold for all
// of them: beyond the loopback interface only with a token, and errors that
// say what to do.
package listen

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// TCP opens the address, "HOST:PORT". It refuses one that other hosts can
// reach unless there is a token to keep strangers out; what the token is does
// not matter here. Port 0 takes any that is free.
func TCP(address, token string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("harpagon: address %q is not HOST:PORT, for example 127.0.0.1:8000: %w", address, err)
	}
	if token == "" && !Loopback(host) {
		return nil, fmt.Errorf("harpagon: %q can be reached from other hosts; set a token for the gateway, or listen on 127.0.0.1:%s", address, port)
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("harpagon: port %s on %s is in use by another program; stop that, or choose another port (0 takes any that is free): %w", port, host, err)
	case err != nil:
		return nil, fmt.Errorf("harpagon: cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// Loopback says that only this machine reaches the host. An empty host means
// all interfaces.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
