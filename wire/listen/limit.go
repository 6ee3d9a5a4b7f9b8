package listen

import (
	"bytes"
	"container/list"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// descriptors is how many files and connections this process may have open. Go
// raises it to what the system allows when a process starts.
func descriptors() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return fewDescriptors
	}
	return int(min(r.Cur, 1<<30))
}

// fewDescriptors are too few for a process that serves others.
const fewDescriptors = 4096

// WarnFewDescriptors warns of too few descriptors; empty where there are enough.
func WarnFewDescriptors() string {
	if n := descriptors(); n < fewDescriptors {
		return "this process may have only " + strconv.Itoa(n) + " files and connections open; raise that with ulimit -n, or LimitNOFILE of its service"
	}
	return ""
}

// idleLeast is how long a connection must have had no request before it is closed to make
// room: one that has just come is about to send one.
const idleLeast = time.Second

// Limit keeps at most so many connections of a listener open, so that descriptors and
// memory never run out. Where one comes beyond them, the stranger that has been idle for
// longest is closed to make room, see Place; where there is none, it is the newcomer that
// is refused and closed. most is above 0.
func Limit(l net.Listener, most int, r Refusal) net.Listener { return limit(l, most, r) }

func limit(l net.Listener, most int, r Refusal) *limited {
	return &limited{Listener: l, most: most, refusal: r}
}

type limited struct {
	net.Listener
	most    int
	refusal Refusal
	told    atomic.Int64 // connections that are being refused
	heads   bool         // what strangers send counts, see Place.Read
	unheard atomic.Int64 // bytes that count, of all of them

	mu        sync.Mutex
	open      int
	strangers list.List // of *Place, the one that has been idle for longest first
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p := l.enter(c); p != nil {
			return p, nil
		}
		if l.told.Add(1) > mostTold {
			l.told.Add(-1)
			_ = c.Close()
			continue
		}
		go func() {
			defer l.told.Add(-1)
			l.refusal.refuse(c)
		}()
	}
}

// enter finds a place for a connection; nil where there is none.
func (l *limited) enter(c net.Conn) *Place {
	p := &Place{Conn: c, of: l, since: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most {
		idle := l.idlest(p.since)
		if idle == nil {
			return nil
		}
		l.leave(idle)
		defer func() { _ = idle.Conn.Close() }() // its server closes the rest of it
	}
	p.at = l.strangers.PushBack(p)
	l.open++
	return p
}

// idlest is the stranger that has been idle for longest; nil where none has been for long
// enough. The lock is held.
func (l *limited) idlest(now time.Time) *Place {
	for range l.strangers.Len() {
		p := l.strangers.Front().Value.(*Place)
		if p.busy.Load() == 0 {
			if now.Sub(p.since) < idleLeast {
				return nil
			}
			return p
		}
		l.strangers.MoveToBack(p.at) // where it will be anyway, once it is idle
	}
	return nil
}

// leave takes a connection out. The lock is held.
func (l *limited) leave(p *Place) {
	if p.left {
		return
	}
	p.left = true
	l.open--
	l.forget(p)
}

// forget takes a connection out of the strangers. The lock is held.
func (l *limited) forget(p *Place) {
	if p.at != nil {
		l.strangers.Remove(p.at)
		p.at = nil
	}
}

// Place is a connection's among those that its port keeps open. Its caller is a stranger, not
// authenticated, until Prove, and idle except between Begin and End. Its methods may be called
// from any goroutine, and do nothing for nil.
type Place struct {
	net.Conn
	of   *limited
	busy atomic.Int64
	own  atomic.Bool // its caller is authenticated

	unheard atomic.Int64 // bytes that were read and led to no request yet, see Read
	serving atomic.Int64 // handlers of its requests

	since time.Time     // it has been idle; these are under the lock of the port
	at    *list.Element // among the strangers; nil for none
	left  bool
}

// PlaceOf is the place of a connection that came from Limit; nil for another. What wraps
// a connection, as TLS does, is looked through.
func PlaceOf(c net.Conn) *Place {
	p, _ := Layer[*Place](c)
	return p
}

// Prove reports that the caller is authenticated: its connection is never closed to make room
// for others.
func (p *Place) Prove() {
	if p == nil || p.own.Swap(true) {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.forget(p)
}

// Proven reports whether Prove was called.
func (p *Place) Proven() bool { return p != nil && p.own.Load() }

// Begin reports that a request, which was read to its end, is worked on, until End.
func (p *Place) Begin() {
	if p != nil {
		p.busy.Add(1)
	}
}

// End ends what Begin has begun.
func (p *Place) End() {
	if p == nil || p.busy.Add(-1) > 0 || p.own.Load() {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.since = time.Now()
	if p.at != nil {
		p.of.strangers.MoveToBack(p.at)
	}
}

// NetConn is the connection below.
func (p *Place) NetConn() net.Conn { return p.Conn }

// Bytes of strangers that led to no request yet: of heads that are not whole, which take
// some twenty times as many once they are read apart, and of what precedes TLS.
const (
	mostUnheard = 2 << 20 // of all connections of a port, beyond those
	fewUnheard  = 2 << 10 // that each has
)

// errUnheard is one of the network, after which servers close a connection without a word.
var errUnheard error = &net.OpError{Op: "read", Err: errors.New("too many connections have sent the beginning of a request")}

// Read implements net.Conn. Where heads count, it fails for a stranger who goes on with a
// long one while there is no room for more of them.
func (p *Place) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n <= 0 || !p.of.heads || p.own.Load() || p.serving.Load() > 0 {
		return n, err
	}
	now := p.unheard.Add(int64(n))
	more := now - max(now-int64(n), fewUnheard)
	if more > 0 && p.of.unheard.Add(more) > mostUnheard {
		return 0, errUnheard
	}
	return n, err
}

// Write implements net.Conn.
func (p *Place) Write(b []byte) (int, error) {
	p.heard()
	return p.Conn.Write(b)
}

// heard reports that what was read has led to something.
func (p *Place) heard() {
	if p.unheard.Load() == 0 {
		return
	}
	if n := p.unheard.Swap(0) - fewUnheard; n > 0 {
		p.of.unheard.Add(-n)
	}
}

// serve reports that so many more handlers work on requests, which what is read is for.
func (p *Place) serve(more int64) {
	if p != nil {
		p.serving.Add(more)
		p.heard()
	}
}

// Close implements net.Conn.
func (p *Place) Close() error {
	p.heard()
	p.of.mu.Lock()
	p.of.leave(p)
	p.of.mu.Unlock()
	return p.Conn.Close()
}

// resourceExhausted is grpc's codes.ResourceExhausted. That package would have every client
// compile a part of gRPC.
const resourceExhausted = 8

// Beyond is the error of callers beyond the most connections.
const Beyond = "as many connections are open as may be (--max-connections); try again when some are closed"

// Refusal is how they receive it.
type Refusal struct {
	Tell func(io.ReadWriter) // in the protocol of the port; nil writes nothing
	TLS  *tls.Config         // over which it is written; nil writes it plain
}

const (
	refuseTime = time.Second    // how long a caller has to read it
	speakTime  = refuseTime / 2 // and to send something before it
	mostTold   = 64             // at a time; those beyond receive nothing
	mostUnread = 1 << 20        // bytes that are read of what a caller has sent
	mostFrame  = 16 << 10       // bytes of a frame of HTTP/2, which may be no longer where nothing is agreed on
)

// say writes one text to all.
func say(text []byte) func(io.ReadWriter) {
	return func(to io.ReadWriter) { _, _ = to.Write(text) }
}

// sayAfter writes one text to all, after their first byte or speakTime: some clients do not
// take what precedes their request for its answer.
func sayAfter(text []byte) func(io.ReadWriter) {
	return func(to io.ReadWriter) {
		var first [1]byte
		_, _ = to.Read(first[:])
		_, _ = to.Write(text)
	}
}

// refuse answers one caller, and closes its connection.
func (r Refusal) refuse(c net.Conn) {
	defer c.Close()
	raw, began := c, time.Now()
	_ = raw.SetReadDeadline(began.Add(speakTime))
	_ = raw.SetWriteDeadline(began.Add(refuseTime))
	if r.TLS != nil {
		secured := tls.Server(c, r.TLS)
		if secured.Handshake() != nil {
			return
		}
		c = secured
	}
	if r.Tell != nil {
		r.Tell(c)
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = raw.SetReadDeadline(began.Add(refuseTime))
	// Left unread, what it has sent would reset the connection, and the answer with it.
	_, _ = io.CopyN(io.Discard, c, mostUnread)
}

// speaking has a port agree on one protocol above TLS, whatever others it supports. A nil
// configuration stays nil.
func speaking(protocol string, c *tls.Config) *tls.Config {
	if c == nil || protocol == "" {
		return c
	}
	only := c.Clone()
	only.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := c.GetConfigForClient(h)
		if err == nil {
			now.NextProtos = []string{protocol}
		}
		return now, err
	}
	return only
}

// crowded is the answer to a caller of HTTP/1.
const crowded = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
	`{"error":"` + Beyond + `","code":"overloaded"}`

// refuseCall answers the first call of a client of gRPC by a status: clients do not pass on
// HTTP/2's other means, such as GOAWAY.
func refuseCall(c io.ReadWriter) {
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(c, preface[:]); err != nil || string(preface[:]) != http2.ClientPreface {
		return
	}
	f := http2.NewFramer(c, c)
	f.SetMaxReadFrameSize(mostFrame)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() && f.WriteSettingsAck() != nil {
				return
			}
		case *http2.HeadersFrame:
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: exhausted(), EndStream: true, EndHeaders: true})
			_ = f.WriteGoAway(frame.StreamID, http2.ErrCodeEnhanceYourCalm, []byte(Beyond))
			return
		}
	}
}

// exhausted are the headers of an answer of gRPC that is a status and nothing else.
func exhausted() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{
		{":status", "200"}, {"content-type", "application/grpc"},
		{"grpc-status", strconv.Itoa(resourceExhausted)}, {"grpc-message", Beyond},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	return b.Bytes()
}
