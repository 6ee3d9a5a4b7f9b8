package queue

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire/keepalive"
)

// version of the protocol.
const version = 5

// preamble is what either side sends first. It ends like a request of HTTP, so that a
// server of that answers at once what it thinks of it.
var preamble = [...]byte{'h', 'p', 'g', 'q', version, '\r', '\n', '\r', '\n'}

// helloTime is how long the other side may take to say who it is.
const helloTime = 5 * time.Second

// drainTime is how long a client that has come to the wrong port may take to read why.
const drainTime = 200 * time.Millisecond

// maxBacklog is how many bytes may wait for a peer that does not read, before the
// connection is given up.
const maxBacklog = 64 << 20

// PeerError says that the other side is not what the address should lead to.
type PeerError struct {
	Address string
	Reason  string
}

func (e *PeerError) Error() string { return fmt.Sprintf("queue: %s: %s", e.Address, e.Reason) }

// ErrBehind says that the other side has not read for too long.
var ErrBehind = errors.New("queue: the other side does not keep up: more than 64 MiB wait for it")

// Conn is one connection after both sides have said who they are. Send may be called
// by many goroutines, Receive by one.
type Conn struct {
	Peer string // its name

	conn *keepalive.Conn
	read *bufio.Reader
	room []byte
	over chan struct{} // closed when the connection has ended

	asked atomic.Int32 // whether it lives, since anything has come

	mu      sync.Mutex
	filled  sync.Cond
	pending []byte
	due     bool // what is pending waits for nothing else
	waits   bool // until some of what is pending is due
	ended   error
	written sync.WaitGroup
}

// Self is what a side says of itself.
type Self struct {
	Role        Role
	Name, Token string

	// Patience is how long the other side may be silent before the connection ends; see
	// keepalive.Conn.Listen.
	Patience time.Duration

	// Doubt is called when the other side has been silent for three quarters of that at most; see
	// Conn.Doubtful. It must not block.
	Doubt func()
}

// doubtful is how often in a row the other side is asked whether it lives before that is
// doubtful.
const doubtful = 2

// Open says Hello over a fresh connection and waits for that of the other side, which
// must be of role want. accept may refuse it by what it says. Close the Conn, which
// closes the connection. The error is a *PeerError where the other side is something
// else, or does not take us.
func Open(c net.Conn, self Self, want Role, accept func(hello *Message) error) (*Conn, error) {
	watched := keepalive.New(c)
	q := &Conn{conn: watched, read: bufio.NewReaderSize(watched, 64<<10), over: make(chan struct{})}
	q.filled.L = &q.mu
	q.pending = append(q.pending, preamble[:]...)
	q.Send(&Message{Kind: Hello, Role: self.Role, Text: []byte(self.Name), Token: []byte(self.Token)})
	write := sync.OnceFunc(func() { q.written.Go(q.write) })
	if self.Role != Dispatcher {
		write() // a dispatcher listens first, and can tell clients what it is
	}
	if err := q.handshake(self.Role, want, accept, write); err != nil {
		write()
		_ = q.Close()
		return nil, err
	}
	q.written.Go(func() {
		expected := func() bool { return true }
		ask := func() {
			q.Send(&Message{Kind: Ping})
			if q.asked.Add(1) == doubtful && self.Doubt != nil {
				self.Doubt()
			}
		}
		if watched.Listen(q.over, self.Patience, expected, ask) {
			q.end(keepalive.ErrSilent)
		}
	})
	return q, nil
}

// methods are how the requests of clients begin.
var methods = []string{"GET ", "POST", "HEAD", "PUT ", "PRI "}

// toClients answers a client that has come to the wrong port.
const toClients = `{"error":"this is the port of a dispatcher, which decides for gateways and takes no requests; send them to a gateway (harpagon gateway --http prints its address)"}`

func (q *Conn) handshake(role, want Role, accept func(*Message) error, write func()) error {
	_ = q.conn.SetReadDeadline(time.Now().Add(helloTime))
	defer func() { _ = q.conn.SetReadDeadline(time.Time{}) }()
	address := "the peer"
	if a := q.conn.RemoteAddr(); a != nil {
		address = a.String()
	}
	wrong := func(format string, args ...any) error {
		return &PeerError{Address: address, Reason: fmt.Sprintf(format, args...)}
	}
	var first [len(preamble)]byte
	if _, err := io.ReadFull(q.read, first[:]); err != nil {
		return wrong("it closed the connection before it said who it is: %v; is that the port of a %s?", err, want)
	}
	if role == Dispatcher && slices.Contains(methods, string(first[:4])) {
		q.mu.Lock()
		q.pending = fmt.Appendf(q.pending[:0], "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(toClients), toClients)
		q.mu.Unlock()
		write()
		_ = q.conn.SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, q.read, 1<<20) // what is left unread would reset the connection
		return wrong("a client sends requests there; it was told to send them to a gateway")
	}
	write()
	switch {
	case [4]byte(first[:4]) != [4]byte(preamble[:4]):
		return wrong("something else answers there, not a %s; requests go to a gateway, and --dispatcher takes the address that harpagon dispatcher prints", want)
	case first[4] != version:
		return wrong("it speaks version %d of the protocol and this program version %d; run the same version of harpagon on both sides", first[4], version)
	}
	var m Message
	err := q.Receive(&m)
	switch {
	case err != nil:
		return wrong("%v", err)
	case m.Kind != Hello:
		return wrong("it did not say who it is")
	case m.Role != want:
		return wrong("it is a %s, but a %s is expected there", m.Role, want)
	}
	q.Peer = string(m.Text)
	if accept == nil {
		return nil
	}
	if err := accept(&m); err != nil {
		q.Send(&Message{Kind: Fail, Text: []byte(err.Error())})
		return wrong("%v", err)
	}
	return nil
}

// Send queues a message; what is sent while another write is under way goes together
// in the next. Errors come by Receive.
func (q *Conn) Send(m *Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.put(m) {
		q.flush()
	}
}

// atLatest is when a message goes that waits for another to go with.
const atLatest = 100 * time.Millisecond

// SendLater queues a message to go with the next that is sent, so that it costs the other
// side no waking up of its own; by itself where none is sent for a tenth of a second. The
// order is that of the calls.
func (q *Conn) SendLater(m *Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.put(m) || q.due || q.waits {
		return
	}
	q.waits = true
	time.AfterFunc(atLatest, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.waits = false; len(q.pending) > 0 {
			q.flush()
		}
	})
}

// put queues a message; false where the connection has ended. The lock is held.
func (q *Conn) put(m *Message) bool {
	if q.ended != nil {
		return false
	}
	q.pending = Append(q.pending, m)
	if len(q.pending) > maxBacklog {
		q.finish(ErrBehind)
		q.filled.Signal()
		_ = q.conn.Close()
	}
	return true
}

// flush has what is pending written. The lock is held.
func (q *Conn) flush() {
	q.due = true
	q.filled.Signal()
}

// finish notes why the connection has ended; the first reason counts. The lock is held.
func (q *Conn) finish(why error) {
	if q.ended == nil {
		q.ended = why
		close(q.over)
	}
}

// write writes what is pending until the connection ends.
func (q *Conn) write() {
	var batch []byte
	for {
		q.mu.Lock()
		for !q.due && q.ended == nil {
			q.filled.Wait()
		}
		if len(q.pending) == 0 || q.ended != nil && q.ended != io.EOF {
			q.mu.Unlock()
			return
		}
		batch, q.pending, q.due = q.pending, batch[:0], false
		q.mu.Unlock()
		if _, err := q.conn.Write(batch); err != nil {
			q.end(err)
			return
		}
		if cap(batch) > 1<<20 {
			batch = nil
		}
	}
}

func (q *Conn) end(err error) {
	q.mu.Lock()
	q.finish(err)
	q.filled.Signal()
	q.mu.Unlock()
	_ = q.conn.Close()
}

// Doubtful says that the other side was asked whether it lives and has not answered at
// once. What is expected of it should not be waited for.
func (q *Conn) Doubtful() bool { return q.asked.Load() >= doubtful }

// Receive waits for the next message. What m holds is valid until the next call. It
// returns io.EOF after the other side has closed, and what a Fail says as an error.
func (q *Conn) Receive(m *Message) error {
	for {
		if err := q.receive(m); err != nil {
			return err
		}
		if q.asked.Load() != 0 {
			q.asked.Store(0)
		}
		switch m.Kind {
		case Fail:
			return errors.New(string(m.Text))
		case Ping:
			q.Send(&Message{Kind: Pong})
		case Pong:
		default:
			return nil
		}
	}
}

func (q *Conn) receive(m *Message) error {
	// Most messages lie in the buffer as a whole, and are read there.
	if lies, _ := q.read.Peek(q.read.Buffered()); len(lies) > 0 {
		n, k := binary.Uvarint(lies)
		if k > 0 && n <= uint64(len(lies)-k) {
			_, _ = q.read.Discard(k + int(n))
			return Parse(lies[k:k+int(n)], m)
		}
	}
	n, err := binary.ReadUvarint(q.read)
	switch {
	case err != nil:
		return q.cause(err)
	case n > MaxFrame:
		return fmt.Errorf("queue: a message of %d bytes; at most %d are allowed", n, MaxFrame)
	}
	if err := q.frame(int(n)); err != nil {
		return q.cause(err)
	}
	return Parse(q.room, m)
}

// Next is the kind of the message that Receive returns next, where a part of it lies in
// the buffer already; 0 where that is not known.
func (q *Conn) Next() Kind {
	if q.read.Buffered() < 2 {
		return 0
	}
	lies, _ := q.read.Peek(2)
	if lies[0] >= 1<<7 {
		return 0 // its length has more than a byte
	}
	return Kind(lies[1])
}

// Reads is how many reads of the connection have brought something. What Receive returns
// without another came with the last.
func (q *Conn) Reads() uint64 { return q.conn.Reads() }

// frame reads the next n bytes. It grows as they come, not as they are promised.
func (q *Conn) frame(n int) error {
	const step = 64 << 10
	q.room = q.room[:0]
	for len(q.room) < n {
		from := len(q.room)
		q.room = append(q.room, make([]byte, min(step, n-from))...)
		if _, err := io.ReadFull(q.read, q.room[from:]); err != nil {
			return err
		}
	}
	return nil
}

func (q *Conn) cause(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return q.ended
	}
	return err
}

// flushTime is how long Close waits for what is pending.
const flushTime = time.Second

// Close sends what is pending and ends the connection.
func (q *Conn) Close() error {
	_ = q.conn.SetWriteDeadline(time.Now().Add(flushTime))
	q.mu.Lock()
	q.finish(io.EOF)
	q.filled.Signal()
	q.mu.Unlock()
	q.written.Wait()
	return q.conn.Close()
}
