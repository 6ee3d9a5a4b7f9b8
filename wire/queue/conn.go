package queue

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire/stream"
)

// version of the protocol.
const version = 5

// preamble is what either side sends first. It ends like a request of HTTP, so that a
// server of that answers at once what it thinks of it.
var preamble = [...]byte{'h', 'p', 'g', 'q', version, '\r', '\n', '\r', '\n'}

// places is what a dispatcher that gives places to streams sends in place of a token; one of
// the edition before sends nothing.
const places = "places"

// helloTime is how long the other side may take to identify itself.
const helloTime = 5 * time.Second

// maxBacklog is how many bytes may wait for a peer that does not read, before the
// connection is given up.
const maxBacklog = 64 << 20

// peerError means that the other side is not what the address should lead to.
type peerError struct {
	Address string
	Reason  string
}

func (e *peerError) Error() string { return fmt.Sprintf("queue: %s: %s", e.Address, e.Reason) }

// Refusal is what a gateway that is refused receives; its Open returns why.
func Refusal(why string) []byte { return Append(preamble[:], &Message{Kind: Fail, Text: []byte(why)}) }

// Conn is one connection after both sides have identified themselves. Send may be called by
// many goroutines, Receive by one.
type Conn struct {
	Peer   string // its name
	Places bool   // it is a dispatcher that gives places to streams

	conn  *stream.Conn
	asked atomic.Int32 // whether it lives, since anything has come
}

// Self is how a side identifies itself.
type Self struct {
	Role  Role
	Name  string
	Token string // that a gateway shows; a dispatcher shows none, see places

	// Patience is how long the other side may be silent before the connection ends; see
	// stream.Conn.Listen.
	Patience time.Duration

	// Doubt is called when the other side has been silent for three quarters of that at most; see
	// Conn.Doubtful. It must not block.
	Doubt func()
}

// doubtful is how many pings in a row go unanswered until it is doubtful that the other side
// lives.
const doubtful = 2

// Open sends Hello over a fresh connection and waits for that of the other side, which must be
// of role want. accept may refuse it. Close the Conn, which closes the connection. The error is
// a *peerError where the other side is something else, or refuses this one.
func Open(c net.Conn, self Self, want Role, accept func(hello *Message) error) (*Conn, error) {
	q := &Conn{conn: stream.NewConn(c, stream.ConnOptions{
		Buffer: 64 << 10, MaxFrame: maxFrame, First: stream.MostGreeting, Backlog: maxBacklog, Corked: true,
		Held: self.Role == Dispatcher, // it listens first, and can answer clients of other protocols
	})}
	q.conn.Send(preamble[:])
	if self.Role == Dispatcher {
		self.Token = places
	}
	q.Send(&Message{Kind: Hello, Role: self.Role, Text: []byte(self.Name), Token: []byte(self.Token)})
	if err := q.handshake(self.Role, want, accept); err != nil {
		q.conn.Release(nil)
		_ = q.Close()
		return nil, err
	}
	go func() {
		expected := func() bool { return true }
		ask := func() {
			q.Send(&Message{Kind: Ping})
			if q.asked.Add(1) == doubtful && self.Doubt != nil {
				self.Doubt()
			}
		}
		if q.conn.Listen(q.conn.Over(), self.Patience, expected, ask) {
			q.conn.End(stream.ErrSilent)
		}
	}()
	return q, nil
}

// toClients answers a client that has come to the wrong port.
const toClients = `{"error":"this is the port of a dispatcher, which decides for gateways and takes no requests; send them to a gateway (harpagon gateway --http prints its address)"}`

func (q *Conn) handshake(role, want Role, accept func(*Message) error) error {
	_ = q.conn.SetReadDeadline(time.Now().Add(helloTime))
	defer func() { _ = q.conn.SetReadDeadline(time.Time{}) }()
	address := "the peer"
	if a := q.conn.RemoteAddr(); a != nil {
		address = a.String()
	}
	wrong := func(format string, args ...any) error {
		return &peerError{Address: address, Reason: fmt.Sprintf(format, args...)}
	}
	var first [len(preamble)]byte
	if err := q.conn.First(first[:]); err != nil {
		return wrong("it closed the connection before it identified itself: %v; is that the port of a %s?", err, want)
	}
	if role == Dispatcher && stream.FromClient(first[:]) {
		q.conn.RefuseClient(toClients)
		q.conn.Drain()
		return wrong("a client sends requests there; it was referred to a gateway")
	}
	q.conn.Release(nil)
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
	case m.Kind == Fail:
		return wrong("%s", m.Text)
	case m.Kind != Hello:
		return wrong("it did not identify itself")
	case m.Role != want:
		return wrong("it is a %s, but a %s is expected there", m.Role, want)
	}
	q.Peer, q.Places = string(m.Text), m.Role == Dispatcher && string(m.Token) == places
	if accept != nil {
		if err := accept(&m); err != nil {
			q.Send(&Message{Kind: Fail, Text: []byte(err.Error())})
			return wrong("%v", err)
		}
	}
	q.conn.Admit(maxFrame)
	return nil
}

// roomFor is for the frames of most messages.
const roomFor = 512

// Send queues a message; what is sent while another write is under way goes together
// in the next. Errors come by Receive.
func (q *Conn) Send(m *Message) {
	var room [roomFor]byte
	q.conn.Copy(Append(room[:0], m))
}

// SendLater queues a message to go with the next that is sent, so that it costs the other
// side no waking up of its own; by itself where none is sent for a tenth of a second. The
// order is that of the calls.
func (q *Conn) SendLater(m *Message) {
	var room [roomFor]byte
	q.conn.SendLater(Append(room[:0], m))
}

// Doubtful reports that the other side has not answered the latest pings at once. Callers
// should not wait for its messages.
func (q *Conn) Doubtful() bool { return q.asked.Load() >= doubtful }

// Receive waits for the next message. What m holds is valid until the next call. It
// returns io.EOF after the other side has closed, and the text of a Fail as an error.
func (q *Conn) Receive(m *Message) error {
	for {
		frame, err := q.conn.Next()
		if err == nil {
			err = Parse(frame, m)
		}
		if err != nil {
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

// Next is the kind of the message that Receive returns next, without waiting for it; 0
// where that is not known.
func (q *Conn) Next() Kind {
	kind, _ := q.conn.Peek()
	return Kind(kind)
}

// Reads is how many reads of the connection have brought something. What Receive returns
// without another came with the last.
func (q *Conn) Reads() uint64 { return q.conn.Reads() }

// flushTime is how long Close waits for what is pending.
const flushTime = time.Second

// Close sends what is pending and ends the connection.
func (q *Conn) Close() error {
	q.conn.Flush(flushTime)
	return q.conn.Close()
}
