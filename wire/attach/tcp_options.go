package attach

import (
	"net"
	"time"

	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// DefaultMaxMessage is the largest message in bytes: one batch with all its
// tensors.
const DefaultMaxMessage = 256 << 20

// connectTime is how long an attempt to connect may take.
const connectTime = 2 * time.Second

// DefaultPatience is what an executor gets to say who it is.
const DefaultPatience = 5 * time.Second

// mostHello is how many bytes the first message of an executor may have: its name, and what
// its module takes and gives.
const mostHello = 1 << 20

// buffer is how many bytes are read at once. What is larger is read where it stays.
const buffer = 16 << 10

// TCPOptions are common to both sides. The zero value is good on loopback.
type TCPOptions struct {
	secure.Credentials               // what each side proves itself with, and asks of the other
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
// While one side reads what is large it says that it lives.
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
