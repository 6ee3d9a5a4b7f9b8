package attachtcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/frames"
	"github.com/harpagon/harpagon/wire/secure"
)

// Serve accepts executors on the listener until ctx ends. accept serves one
// stream and blocks until it is over, as Gateway.Attach does; its error is
// what the executor's Recv returns.
func Serve(ctx context.Context, l net.Listener, o Options, accept func(attach.Stream) error) error {
	over, err := o.Identity.Server()
	if err != nil {
		return err
	}
	s := &server{options: o, over: over, callers: o.Guard().For(secure.Join), patience: cmp.Or(o.Patience, DefaultPatience), accept: accept}
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close()
		s.conns.close()
	})
	defer stop()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err == nil:
			go s.serve(c)
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			time.Sleep(10 * time.Millisecond) // out of file descriptors, most likely
		}
	}
}

type server struct {
	options  Options
	over     *tls.Config // nil without TLS
	callers  secure.Guard
	patience time.Duration // until the first message
	silent   silent
	conns    conns
	accept   func(attach.Stream) error
}

// conns are those that are open.
type conns struct {
	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// enter is false where no more are taken.
func (s *conns) enter(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = make(map[net.Conn]bool)
	}
	if !s.closed {
		s.open[c] = true
	}
	return !s.closed
}

func (s *conns) leave(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

func (s *conns) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
}

// mostSilent bounds the streams that have not said who they are.
const mostSilent = 256

// silent counts them.
type silent struct{ n atomic.Int64 }

func (s *silent) enter() bool {
	if s.n.Add(1) <= mostSilent {
		return true
	}
	s.leave()
	return false
}

func (s *silent) leave() { s.n.Add(-1) }

// serve serves one connection.
func (s *server) serve(raw net.Conn) {
	defer raw.Close()
	if !s.conns.enter(raw) {
		return
	}
	defer s.conns.leave(raw)
	c := frames.Prompt(raw)
	_ = c.SetReadDeadline(time.Now().Add(s.patience))
	var state *tls.ConnectionState
	if s.over != nil {
		secured := tls.Server(c, s.over)
		if secured.Handshake() != nil {
			return
		}
		of := secured.ConnectionState()
		c, state = secured, &of
	}
	conn := s.options.open(c, true)
	conn.Send(preamble[:])
	token, err := meet(conn)
	if err != nil {
		conn.Flush(drainTime)
		_ = conn.Close()
		return
	}
	stream := &stream{conn: conn, peer: raw.RemoteAddr().String(), limit: s.options.maxMessage()}
	if err := s.welcome(token, state); err != nil {
		stream.finish(err.Error(), drainTime)
		return
	}
	if err = s.attach(stream); err != nil {
		_ = stream.Close()
		stream.finish(err.Error(), linger)
		return
	}
	_ = stream.Close()
	stream.finish("", linger)
}

// welcome says why an executor may not attach.
func (s *server) welcome(token string, state *tls.ConnectionState) error {
	if !s.callers.Admits([]string{"Bearer " + token}, state) {
		return errors.New(s.callers.Refusal("the gateway"))
	}
	if !s.silent.enter() {
		return fmt.Errorf("%d streams have not said who they are; no more are taken until some have", mostSilent)
	}
	return nil
}

// attach has a stream accepted.
func (s *server) attach(of *stream) error {
	spoken := sync.OnceFunc(s.silent.leave)
	defer spoken()
	hello := time.AfterFunc(s.patience, func() {
		of.late(fmt.Errorf("no handshake within %v", s.patience))
	})
	defer hello.Stop()
	of.first = func() {
		hello.Stop()
		spoken()
		go of.watch(s.options.Keepalive)
	}
	return s.accept(of)
}
