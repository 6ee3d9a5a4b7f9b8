// Package listen opens ports with the rules that hold for all of them: beyond the
// loopback interface only where callers prove themselves, and errors that state what to do.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"github.com/harpagon/harpagon/wire/secure"
)

// TCP opens the address, "HOST:PORT". It refuses one that other hosts can reach
// unless the credentials keep strangers out; see secure.Credentials. What comes in
// is not yet TLS: servers of gRPC and of executors see to that themselves, others wrap
// the listener by TLS. Port 0 takes any that is free.
func TCP(address string, c secure.Credentials) (net.Listener, error) {
	if err := c.MayListen(address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &BusyError{Address: address, Err: err}
	case err != nil:
		return nil, fmt.Errorf("harpagon: cannot listen on %s: %w", address, err)
	}
	return l, nil
}

// connections is how many connections a port keeps open by default: the rest of the process
// gets as many descriptors, and those of a port take some 100 MiB, with buffers and stacks,
// before any has sent a request.
func connections() int { return min(max(descriptors()/4, 16), 4096) }

// TLS is the listener with TLS, where there is an identity.
func TLS(l net.Listener, i *secure.Identity) (net.Listener, error) {
	config, err := i.Server()
	if config == nil || err != nil {
		return l, err
	}
	return tls.NewListener(l, config), nil
}

// HTTP opens the address for a server of HTTP/1 that keeps at most so many connections
// open, and reads few at a time (Gate); 0 means connections. They report when requests came
// (Arrival).
func HTTP(address string, c secure.Credentials, most int) (net.Listener, error) {
	l, err := open(address, c, most, Refusal{Tell: sayAfter([]byte(crowded))}, "http/1.1", Stamp)
	if err != nil {
		return nil, err
	}
	l.heads = true
	return TLS(Gate(l), c.Identity)
}

// GRPC opens the address for a server of gRPC, which sees to TLS itself, in the same way.
func GRPC(address string, c secure.Credentials, most int) (net.Listener, error) {
	l, err := open(address, c, most, Refusal{Tell: refuseCall}, http2.NextProtoTLS, Stamp)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Frames opens the address for connections of frames (package stream), at most so many; 0
// means connections. Those beyond receive the refusal. TLS is the server's.
func Frames(address string, c secure.Credentials, most int, refusal []byte) (net.Listener, error) {
	l, err := open(address, c, most, Refusal{Tell: say(refusal)}, "", func(l net.Listener) net.Listener { return l })
	if err != nil {
		return nil, err
	}
	return l, nil
}

// open is TCP with at most so many connections. Those beyond are refused over TLS where
// there is an identity, by a protocol. It fails where no port can have the identity.
func open(address string, c secure.Credentials, most int, r Refusal, protocol string, with func(net.Listener) net.Listener) (*limited, error) {
	config, err := c.Identity.Server()
	if err != nil {
		return nil, err
	}
	r.TLS = speaking(protocol, config)
	l, err := TCP(address, c)
	if err != nil {
		return nil, err
	}
	return limit(with(l), cmp.Or(most, connections()), r), nil
}

// again is how long accepting rests after it has failed.
const again = 10 * time.Millisecond

// ServeEach has every connection served that comes until life ends, which closes the listener;
// serve starts that and returns. The error is why the listener was closed before.
func ServeEach(life context.Context, l net.Listener, serve func(net.Conn)) error {
	stop := context.AfterFunc(life, func() { _ = l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			serve(c)
		case life.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			time.Sleep(again) // out of file descriptors, most likely
		}
	}
}

// BusyError means that another program has the port.
type BusyError struct {
	Address string // HOST:PORT, as it was requested
	Flag    string // by which people choose it, such as --http; empty where that is not known
	Err     error
}

// Error reports what to do.
func (e *BusyError) Error() string {
	host, port, _ := net.SplitHostPort(e.Address)
	choose := "choose another port (0"
	if e.Flag != "" {
		choose = "choose another with " + e.Flag + " (port 0"
	}
	return fmt.Sprintf("harpagon: port %s on %s is in use by another program; stop that, or %s takes any that is free)", port, host, choose)
}

// Unwrap gives the system's error.
func (e *BusyError) Unwrap() error { return e.Err }

// Free reports which of the addresses other programs have, before anything is started that
// takes a while: a BusyError of each, joined. Other errors are reported when they are opened;
// empty ones are left out.
func Free(addresses ...string) error {
	var busy []error
	for _, address := range addresses {
		if address == "" {
			continue
		}
		l, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			busy = append(busy, &BusyError{Address: address, Err: err})
		}
		if err == nil {
			_ = l.Close()
		}
	}
	return errors.Join(busy...)
}

// Reserve finds a port for a server that opens its ports itself, by their numbers: "HOST:PORT",
// by the rules of TCP, where port 0 is any that is free. The system gives that port to no other
// program that binds port 0 until release is called; on systems other than Linux, and for IPv6,
// it is free now and may be taken before the server has it.
func Reserve(address string, c secure.Credentials) (at *net.TCPAddr, release func(), err error) {
	if err := c.MayListen(address); err != nil {
		return nil, nil, err
	}
	if to, err := net.ResolveTCPAddr("tcp", address); err == nil && to.Port == 0 && to.IP.To4() != nil {
		if port, release, ok := keep(to.IP.To4()); ok {
			return &net.TCPAddr{IP: to.IP, Port: port}, release, nil
		}
	}
	l, err := TCP(address, c)
	if err != nil {
		return nil, nil, err
	}
	return l.Addr().(*net.TCPAddr), func() {}, l.Close()
}
