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

// DefaultMaxMessage is the largest message in bytes: one batch with all its
// tensors.
const DefaultMaxMessage = 256 << 20

// connectTime is how long an attempt to connect may take.
const connectTime = 2 * time.Second

// DefaultPatience is how long an executor may take to identify itself.
const DefaultPatience = 5 * time.Second

// mostHello is how many bytes the first message of an executor may have: its name, and what
// its module takes and gives.
const mostHello = 1 << 20

// buffer is how many bytes are read at once. What is larger is read where it stays.
const buffer = 16 << 10

// TCPOptions are common to both sides. The zero value is good on loopback.
type TCPOptions struct {
	secure.Credentials               // what each side proves itself with, and requires of the other
	MaxMessage         int           // bytes; 0 means DefaultMaxMessage
	Patience           time.Duration // of a server, until a stream's first message; 0 means DefaultPatience
	Keepalive          time.Duration // how long the other side may be silent; see keepalive.Conn.Listen
}

func (o TCPOptions) maxMessage() int {
	if o.MaxMessage > 0 {
		return o.MaxMessage
	}
	return DefaultMaxMessage
}

// open has frames travel over a connection, of which a server writes none before Release.
// While one side reads what is large it reports that it lives.
func (o TCPOptions) open(c net.Conn, server bool) *stream.Conn {
	var conn *stream.Conn
	lives, _ := appendMessage(nil, &Message{Pong: &Ping{}})
	f := stream.ConnOptions{Buffer: buffer, MaxFrame: o.maxMessage(), Held: server, Reading: func() { conn.Send(lives) }}
	if server {
		f.First = stream.MostGreeting
	}
	conn = stream.NewConn(c, f)
	return conn
}

// Dialer opens streams to gateways.
type Dialer struct{ TCPOptions }

// Dial opens a stream to the gateway at "HOST:PORT". It returns an error when no gateway
// answers there; a gateway's refusal of the executor is an error of Recv. The stream ends when
// ctx ends, or at Close.
func (d Dialer) Dial(ctx context.Context, address string) (Stream, error) {
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		err = d.MaySend(host, d.Identity != nil)
	}
	if err != nil {
		return nil, fmt.Errorf("attach: %q: %w", address, err)
	}
	conn, err := d.greet(ctx, host, address)
	if err != nil {
		return nil, fmt.Errorf("attach: no gateway answers at %s: %w", address, secure.Explain(err, address))
	}
	s := &tcpStream{conn: conn, peer: address, limit: d.maxMessage(), ends: true}
	unlink := context.AfterFunc(ctx, func() { s.abort(ctx.Err()) })
	go func() {
		<-conn.Over()
		unlink()
	}()
	go s.watch(d.Keepalive)
	return s, nil
}

// greet connects, and checks that a gateway answers.
func (d Dialer) greet(ctx context.Context, host, address string) (*stream.Conn, error) {
	ctx, end := context.WithTimeout(ctx, connectTime)
	defer end()
	var over *tls.Config
	if d.Identity != nil {
		over = d.Identity.Client(host)
	}
	c, err := stream.Dial(ctx, address, over)
	if err != nil {
		return nil, err
	}
	conn := d.open(c, false)
	until := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer until()
	conn.Send(preamble[:])
	conn.Send(frame(kindToken, d.Token))
	if _, err := greeted(conn, "what answers there"); err != nil {
		conn.End(err)
		return nil, err
	}
	return conn, nil
}

// Serve accepts executors on the listener until ctx ends. accept serves one
// tcpStream and blocks until it is over, as Gateway.Attach does; its error is
// what the executor's Recv returns.
func Serve(ctx context.Context, l net.Listener, o TCPOptions, accept func(Stream) error) error {
	over, err := o.Identity.Server()
	if err != nil {
		return err
	}
	s := &server{options: o, over: over, callers: o.Guard().For(secure.Join), patience: cmp.Or(o.Patience, DefaultPatience), accept: accept}
	return listen.ServeEach(ctx, l, func(c net.Conn) { go s.serve(ctx, c) })
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

// mostSilent bounds the streams of executors that have not identified themselves.
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

// welcome reports why an executor may not attach.
func (s *server) welcome(token string, c net.Conn) error {
	if !s.callers.AdmitsPeer(token, c) {
		return errors.New(s.callers.Refusal("the gateway"))
	}
	if !s.silent.enter() {
		return fmt.Errorf("%d streams have not identified themselves; no more are taken until some have", mostSilent)
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

// version of the protocol.
const version = 1

// preamble is what either side sends first. It ends like a request of HTTP, so that a
// server of that answers at once what it thinks of it.
var preamble = [...]byte{'h', 'p', 'g', 'a', version, '\r', '\n', '\r', '\n'}

// kind of a frame, its first byte.
const (
	kindToken   = iota + 1 // executor to gateway, first
	kindMessage            // an attachpb.Message
	kindEnd                // why; empty in good order
)

// toClients answers a client that has come to the wrong port.
const toClients = `{"error":"this is the port to which executors attach, and takes no requests; send them to the port for clients (harpagon gateway --http prints its address)"}`

// frame makes one.
func frame(kind byte, text string) []byte {
	return append(append(stream.AppendLength(nil, 1+len(text)), kind), text...)
}

// Refusal is what an executor that is refused receives; its Recv returns why.
func Refusal(why string) []byte { return append(preamble[:], frame(kindEnd, why)...) }

// greeted reads the preamble of the other side; who names it in errors.
func greeted(c *stream.Conn, who string) (first [len(preamble)]byte, err error) {
	if err := c.First(first[:]); err != nil {
		return first, err
	}
	switch {
	case [4]byte(first[:4]) != [4]byte(preamble[:4]):
		return first, errors.New(who + " is no port to which executors attach; that is the one of harpagon gateway --attach, or the one after harpagon dispatcher --listen")
	case first[4] != version:
		return first, fmt.Errorf("%s speaks version %d of the protocol and this program version %d; run the same version of harpagon on both sides", who, first[4], version)
	}
	return first, nil
}

// meet reads an executor's first frame, its token.
func meet(c *stream.Conn) (token string, err error) {
	first, err := greeted(c, "what has dialled")
	if stream.FromClient(first[:]) {
		c.RefuseClient(toClients)
	}
	if err != nil {
		c.Release(nil)
		c.Drain()
		return "", err
	}
	c.Release(nil)
	f, err := c.Next()
	switch {
	case err != nil:
		return "", err
	case len(f) == 0 || f[0] != kindToken:
		return "", errors.New("an executor must send its token first")
	}
	return string(f[1:]), nil
}

// Loop opens a stream over the loopback interface and returns both of its ends, to measure
// transfers. It ends with ctx.
func (d Dialer) Loop(ctx context.Context) (gateway, executor Stream, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	accepted := make(chan Stream, 1)
	failed := make(chan error, 1)
	go func() {
		failed <- Serve(ctx, l, d.TCPOptions, func(s Stream) error {
			accepted <- s
			<-ctx.Done()
			return nil
		})
	}()
	if executor, err = d.Dial(ctx, l.Addr().String()); err != nil {
		return nil, nil, err
	}
	select {
	case gateway = <-accepted:
		return gateway, executor, nil
	case err = <-failed: // nil where ctx has ended
	case <-ctx.Done():
	}
	return nil, nil, cmp.Or(err, ctx.Err())
}
