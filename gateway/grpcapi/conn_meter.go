package grpcapi

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire/listen"
)

// A gRPC server gives its handlers only the addresses of a connection, so the remote address
// leads to the connection.
type address struct {
	net.Addr
	of *conn
}

// listener gives its connections such addresses.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, came: listen.Arrival(c), place: listen.PlaceOf(c)}, nil
}

// conn is one connection of callers.
type conn struct {
	net.Conn
	came   func() time.Time // when data came; nil where that is unknown
	unread unread
	place  *listen.Place // among those of the port; nil for none

	heading uint32 // stream of the headers that were read last; for the reader

	mu    sync.Mutex
	calls map[uint32]*call // by stream
	watch *time.Timer      // runs while there may be any
	ended bool
}

// NetConn is the connection below.
func (c *conn) NetConn() net.Conn { return c.Conn }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

// Close implements net.Conn.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.unread.end()
	c.closed()
	return err
}

// connOf is the connection of a call; nil where another listener has accepted it.
func connOf(ctx context.Context) *conn {
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(address); ok {
			return a.of
		}
	}
	return nil
}

// working reports that a request that was read is under way, until done.
func (c *conn) working() (done func()) {
	if c == nil {
		return func() {}
	}
	c.place.Begin()
	return c.place.End
}

// arrival is when the last came that was read of the connection; zero where that is unknown.
// Its calls share the connection, so a call itself may have come somewhat before: what is
// read while it waits for its goroutine is newer. But on a machine that is busy, what is
// read last is long since there, too.
func (c *conn) arrival() time.Time {
	if c == nil || c.came == nil {
		return time.Time{}
	}
	return c.came()
}

// gRPC reports a message when it is complete, and buffers incomplete ones without bound. So
// request bytes are counted where frames are read: a connection is metered above TLS, from
// which gRPC reads no further than to the end of the frame that it handles.

const (
	// perCall is what a call holds itself, in bytes: some 12 KiB, and as much again until what
	// calls before it have left is collected. perFrame is what a short frame takes beside its
	// data; larger ones lie in memory of powers of two (pools).
	perCall, perFrame = 24 << 10, 64

	// mostOther is how many bytes of messages may come that bring no tensors.
	mostOther = 64 << 10

	// messageTime is what a message gets to come, as a body over HTTP does: it is looked at so
	// often, so that some get twice that.
	messageTime = time.Minute
)

// call is what a call holds that is not read yet.
type call struct {
	context.Context
	on     *conn
	stream uint32
	traced bool // by its caller

	// Under the lock of the connection.
	waits  bool      // for its only message
	since  time.Time // when it began to wait, for that or for the end of one
	held   gateway.HeldBytes
	unread int64 // bytes that have come and are not read
	frames int64 // that they count for
	most   int64 // that may be unread; 0 means as many as there is room for
	why    error // it was refused
	over   bool
	teller teller // nil before it has a handler
}

// teller is gRPC's side of a call: what it writes first is the status of the call, and ends it.
type teller interface {
	WriteStatus(*status.Status) error
}

// callKey leads to it.
type callKey struct{}

// callOf is that of a context; nil where its connection is not metered. Its methods do
// nothing then.
func callOf(ctx context.Context) *call {
	k, _ := ctx.Value(callKey{}).(*call)
	return k
}

// Value implements context.Context.
func (k *call) Value(key any) any {
	if key == (callKey{}) {
		return k
	}
	return k.Context.Value(key)
}

// refuse ends the call with the error at once, since its handler waits for the rest of a
// message. The lock is held.
func (k *call) refuse(why error) {
	if k.over || k.why != nil {
		return
	}
	k.held.Shrink(k.frames) // gRPC gives it back at once, and others need not be refused for it
	k.frames, k.unread = 0, 0
	if k.why = why; k.teller != nil {
		go k.tell(k.teller)
	}
}

func (k *call) tell(to teller) { _ = to.WriteStatus(status.Convert(k.why)) }

// start reports that the call has a handler, or why it gets none.
func (k *call) start(ctx context.Context) error {
	if k == nil {
		return nil
	}
	k.on.mu.Lock()
	defer k.on.mu.Unlock()
	k.teller, _ = grpc.ServerTransportStreamFromContext(ctx).(teller)
	return k.why
}

// read reports that a message of so many bytes is taken from gRPC, which holds it no more: it
// counts for its request from now on. It fails where there is no room for what it counts for more.
func (k *call) read(n int, by *gateway.HeldBytes) error {
	if k == nil {
		return by.Grow(int64(n))
	}
	k.on.mu.Lock()
	defer k.on.mu.Unlock()
	k.waits = false
	share := k.frames
	if with := int64(n) + messageHead; with < k.unread {
		share = int64(float64(share) * float64(with) / float64(k.unread))
		k.unread, k.since = k.unread-with, time.Now()
	} else {
		k.unread = 0
	}
	k.frames -= share
	moved := k.held.Move(min(share, int64(n)), by)
	k.held.Shrink(share - moved)
	return by.Grow(int64(n) - moved)
}

// messageHead is how many bytes are before each message.
const messageHead = 5

// end gives back what the call holds, once it is over.
func (k *call) end() {
	if k == nil {
		return
	}
	k.on.mu.Lock()
	defer k.on.mu.Unlock()
	k.drop()
}

// drop is end with the lock held.
func (k *call) drop() {
	if !k.over {
		k.over = true
		k.held.Release()
		delete(k.on.calls, k.stream)
	}
}

// begin is a call, whose headers were read last, from its context. It fails where there is no
// room for it.
func (c *conn) begin(ctx context.Context, of *gateway.Bytes, k *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.Context, k.on, k.stream, k.since, k.held = ctx, c, c.heading, time.Now(), of.Begin("")
	if err := k.held.Grow(perCall); err != nil {
		return err
	}
	if c.calls == nil {
		c.calls = make(map[uint32]*call)
	}
	c.calls[k.stream] = k
	if c.watch == nil && !c.ended {
		c.watch = time.AfterFunc(messageTime, c.look)
	}
	return nil
}

// look refuses calls whose messages do not come, and forgets those that gRPC has ended
// before they had a handler.
func (c *conn) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.calls {
		switch {
		case k.waits && k.Err() != nil:
			k.drop()
		case (k.waits || k.unread > 0) && time.Since(k.since) >= messageTime:
			k.refuse(status.Errorf(codes.DeadlineExceeded, "the message has not arrived within %v", messageTime))
		}
	}
	if c.watch = nil; len(c.calls) > 0 && !c.ended {
		c.watch = time.AfterFunc(messageTime, c.look)
	}
}

// closed gives back what all calls hold.
func (c *conn) closed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.watch != nil {
		c.watch.Stop()
	}
	for _, k := range c.calls {
		k.drop()
	}
}

// data counts a frame of data that comes.
func (c *conn) data(stream uint32, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.calls[stream]
	if k == nil || k.why != nil {
		return // gRPC keeps nothing of it
	}
	size := int64(n) + perFrame
	if n > perFrame {
		size = int64(room(n))
	}
	if k.unread == 0 && !k.waits {
		k.since = time.Now()
	}
	k.unread += int64(n)
	if k.most > 0 && k.unread > k.most {
		k.refuse(status.Errorf(codes.ResourceExhausted, "a message of more than %d bytes, and this call has none of that size", k.most))
	} else if k.held.Grow(size) != nil {
		k.refuse(tooMuch())
	} else {
		k.frames += size
	}
}

// metered is a connection of which the frames are counted.
type metered struct {
	net.Conn
	of   *conn
	rest []byte // that was read and is not passed on
	room []byte
	head [frameHead]byte
	seen int // of head
	skip int // bytes of the frame that follow
}

const (
	readAtOnce = 32 << 10
	frameHead  = 9
	preface    = len(http2.ClientPreface)
)

// Read implements net.Conn.
func (m *metered) Read(to []byte) (n int, err error) {
	switch {
	case len(m.rest) > 0:
		n = copy(to, m.rest)
		m.rest = m.rest[n:]
	case len(to) >= readAtOnce:
		n, err = m.Conn.Read(to)
	default:
		if n, err = m.Conn.Read(m.room); n > 0 {
			m.rest = m.room[copy(to, m.room[:n]):n]
			n = min(n, len(to))
		}
	}
	m.pass(to[:n])
	return n, err
}

// pass looks at what is passed on.
func (m *metered) pass(b []byte) {
	for len(b) > 0 {
		if m.skip > 0 {
			n := min(m.skip, len(b))
			m.skip, b = m.skip-n, b[n:]
			continue
		}
		n := copy(m.head[m.seen:], b)
		b = b[n:]
		if m.seen += n; m.seen < frameHead {
			return
		}
		m.seen = 0
		m.skip = int(m.head[0])<<16 | int(m.head[1])<<8 | int(m.head[2])
		stream := binary.BigEndian.Uint32(m.head[5:]) &^ (1 << 31)
		switch http2.FrameType(m.head[3]) {
		case http2.FrameData:
			m.of.data(stream, m.skip)
		case http2.FrameHeaders:
			m.of.heading = stream
		}
	}
}

// metering are the credentials of a port whose connections are metered.
type metering struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (m metering) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := m.TransportCredentials.ServerHandshake(raw)
	if of, ours := raw.(*conn); ours && err == nil {
		c = &metered{Conn: c, of: of, room: make([]byte, readAtOnce), skip: preface}
	}
	return c, info, err
}

// Clone implements credentials.TransportCredentials.
func (m metering) Clone() credentials.TransportCredentials {
	return metering{m.TransportCredentials.Clone()}
}
