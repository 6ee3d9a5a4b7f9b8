package attach

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

	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// Serve accepts executors on the listener until ctx ends. accept serves one
// tcpStream and blocks until it is over, as Gateway.Attach does; its error is
// what the executor's Recv returns.
func Serve(ctx context.Context, l net.Listener, o TCPOptions, accept func(Stream) error) error {
	over, err := o.Identity.Server()
	if err != nil {
		return err
	}
	s := &server{options: o, over: over, callers: o.Guard().For(secure.Join), patience: cmp.Or(o.Patience, DefaultPatience), accept: accept}
	return listen.Each(ctx, l, func(c net.Conn) { go s.serve(ctx, c) })
}

type server struct {
	options  TCPOptions
	over     *tls.Config // nil without TLS
	callers  secure.Guard
	patience time.Duration // until the first message
	unproven stream.Strangers
	silent   silent
	accept   func(Stream) error
}

// mostSilent bounds the streams that may be there and have not said of which executor.
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

// serve serves one connection, until life ends.
func (s *server) serve(life context.Context, raw net.Conn) {
	defer raw.Close()
	stop := context.AfterFunc(life, func() { _ = raw.Close() })
	defer stop()
	proven := s.unproven.Enter(raw)
	defer proven()
	c := stream.Prompt(raw)
	_ = c.SetReadDeadline(time.Now().Add(s.patience))
	if s.over != nil {
		secured := tls.Server(c, s.over)
		if secured.Handshake() != nil {
			return
		}
		c = secured
	}
	conn := s.options.open(c, true)
	conn.Send(preamble[:])
	token, err := meet(conn)
	if err != nil {
		conn.Flush(stream.DrainTime)
		_ = conn.Close()
		return
	}
	executor := &tcpStream{conn: conn, peer: raw.RemoteAddr().String(), limit: s.options.maxMessage()}
	if err := s.welcome(token, c); err != nil {
		executor.finish(err.Error(), stream.DrainTime)
		return
	}
	proven()
	listen.PlaceOf(raw).Prove()
	conn.Admit(mostHello)
	if err = s.attach(executor); err != nil {
		_ = executor.Close()
		executor.finish(err.Error(), linger)
		return
	}
	_ = executor.Close()
	executor.finish("", linger)
}

// welcome says why an executor may not attach.
func (s *server) welcome(token string, c net.Conn) error {
	if !s.callers.AdmitsPeer(token, c) {
		return errors.New(s.callers.Refusal("the gateway"))
	}
	if !s.silent.enter() {
		return fmt.Errorf("%d streams have not said who they are; no more are taken until some have", mostSilent)
	}
	return nil
}

// attach has a stream accepted.
func (s *server) attach(of *tcpStream) error {
	spoken := sync.OnceFunc(s.silent.leave)
	defer spoken()
	hello := time.AfterFunc(s.patience, func() {
		of.late(fmt.Errorf("no handshake within %v", s.patience))
	})
	defer hello.Stop()
	of.first = func() {
		of.conn.Admit(of.limit)
		hello.Stop()
		spoken()
		go of.watch(s.options.Keepalive)
	}
	return s.accept(of)
}
