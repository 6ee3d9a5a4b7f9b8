package attachgrpc

import (
	"time"

	"github.com/harpagon/harpagon/wire/secure"
)

// DefaultMaxMessage is the largest message in bytes: one batch with all its
// tensors.
const DefaultMaxMessage = 256 << 20

// connectTime is how long an attempt to connect may take.
const connectTime = 2 * time.Second

// DefaultPatience is what an executor gets to say who it is.
const DefaultPatience = 5 * time.Second

// idleTime is how long a connection without streams stays.
const idleTime = time.Minute

// window is what may be under way on a connection before the other side has
// read it; large enough for a batch of pictures.
const window = 8 << 20

// Options are common to both sides. The zero value is good on loopback.
type Options struct {
	secure.Credentials               // what each side proves itself with, and asks of the other
	MaxMessage         int           // bytes; 0 means DefaultMaxMessage
	Patience           time.Duration // of a server, until a stream's first message; 0 means DefaultPatience
	Keepalive          time.Duration // how long the other side may be silent; see keepalive.Conn.Listen
}

func (o Options) maxMessage() int {
	if o.MaxMessage > 0 {
		return o.MaxMessage
	}
	return DefaultMaxMessage
}
