package attachgrpc

import (
	"errors"
	"io"
	"time"

	"github.com/harpagon/harpagon/wire/attach"
	pb "github.com/harpagon/harpagon/wire/attach/attachgrpc/attachpb"
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
		p, err := toProto(m, time.Now())
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
		m, err := fromProto(p, time.Now())
		if err != nil {
			attach.Abort(b.far, err)
			return
		}
		if b.first != nil {
			b.first()
			b.first = nil
		}
		_ = b.far.Send(m)
	}
}
