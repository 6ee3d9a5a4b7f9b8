package attachgrpc

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachgrpc/attachpb"
	"github.com/harpagon/harpagon/wire/keepalive"
)

// connection is either side of a gRPC stream.
type connection interface {
	Send(*pb.Message) error
	Recv() (*pb.Message, error)
}

// bridge joins a gRPC stream to the far end of a Pipe, whose near end is what
// gateway or executor hold. The Pipe gives both the same behaviour that they
// have within one process.
type bridge struct {
	conn  connection
	far   attach.Stream
	first func() // is told when the first message has come; may be nil

	held    atomic.Int64 // batches that were sent and have no result
	decided atomic.Bool  // the other side has said lately that a batch is done
}

// watch ends the stream once the other side is silent. It is over when done is closed.
func (b *bridge) watch(done <-chan struct{}, c *keepalive.Conn, patience time.Duration) {
	if c == nil {
		return
	}
	busy := func() bool { return b.held.Load() > 0 || b.decided.Swap(false) }
	ask := func() { attach.Inject(b.far, &attach.Message{Ping: &attach.Ping{}}) }
	if c.Listen(done, patience, busy, ask) {
		attach.Abort(b.far, keepalive.ErrSilent)
		_ = c.Close()
	}
}

// seen looks at a message on its way.
func (b *bridge) seen(m *attach.Message) {
	switch {
	case m.Batch != nil:
		b.held.Add(1)
	case m.Result != nil:
		b.held.Add(-1)
	case m.Done != nil:
		b.decided.Store(true)
	}
}

// outbound sends what the near end has sent, and returns nil once it has been
// closed and everything is on its way.
func (b *bridge) outbound() error {
	for {
		m, err := b.far.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b.seen(m)
		p, err := Encode(m, time.Now())
		if err == nil {
			err = b.conn.Send(p)
		}
		if err != nil {
			attach.Abort(b.far, err)
			return err
		}
	}
}

// inbound hands on what comes, until the other side has closed. What comes
// after the near end was closed is read and forgotten, so that the other side
// can finish.
func (b *bridge) inbound() {
	for {
		p, err := b.conn.Recv()
		if err != nil {
			attach.Abort(b.far, err) // io.EOF when it closed in good order
			return
		}
		m, err := Decode(p, time.Now())
		if err != nil {
			attach.Abort(b.far, err)
			return
		}
		if b.first != nil {
			b.first()
			b.first = nil
		}
		switch {
		case m.Ping != nil:
			attach.Inject(b.far, &attach.Message{Pong: &attach.Ping{}})
		case m.Pong != nil:
		default:
			b.seen(m)
			_ = b.far.Send(m)
		}
	}
}
