package grpcapi

import (
	"context"
	"sync"

	"google.golang.org/grpc/tap"

	"github.com/harpagon/harpagon/gateway/inflight"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// reading estimates what requests will hold whose messages have not been read: gRPC
// tells how long a message is only when it has been.
type reading struct {
	mu     sync.Mutex
	first  *coming // linked by next
	calls  int     // in the list
	looked int     // how many were left when those that never come were last taken out
	large  int64   // of the largest messages lately
}

// coming is the context of a call whose message has not been read. Nobody tells that it
// never comes, because the call is over: that is looked for where it may matter.
type coming struct {
	context.Context
	traced     bool // by its caller
	next, prev *coming
	read       bool // or known to be over
}

// comingKey leads to it.
type comingKey struct{}

// comingOf is that of a call; nil where nothing bounds what requests hold.
func comingOf(ctx context.Context) *coming {
	c, _ := ctx.Value(comingKey{}).(*coming)
	return c
}

// Value implements context.Context.
func (c *coming) Value(key any) any {
	if key == (comingKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// forget is how fast the largest message is forgotten: by this part with each one.
const forget = 64

// tap refuses a call before its message is read, where those under way and those
// that are being read leave no room for it.
func (s *server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	switch info.FullMethodName {
	case pb.GRPCInferenceService_ModelInfer_FullMethodName:
	case pb.GRPCInferenceService_ModelStreamInfer_FullMethodName:
		if s.options.Bytes.Full(1) {
			return nil, tooMuch()
		}
		return ctx, nil
	default:
		return ctx, nil
	}
	r := &s.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	full := func() bool { return s.options.Bytes.Full(int64(r.calls+1) * r.large) }
	if wasFull := full(); wasFull || r.calls > 2*r.looked+minLook {
		if r.look(); wasFull && full() {
			return nil, tooMuch()
		}
	}
	c := &coming{Context: ctx, traced: oipgrpc.IsTraced(info.Header), next: r.first}
	if c.next != nil {
		c.next.prev = c
	}
	r.first = c
	r.calls++
	return c, nil
}

func tooMuch() error {
	return oipgrpc.EncodeError(wire.Errorf(wire.CodeOverloaded, "", "requests under way hold as much memory as the gateway may (--max-bytes); try again when some are answered"))
}

// minLook is how many calls more there are at least before those are looked for that are
// over, so that they take no memory for ever.
const minLook = 256

// look takes out the calls that are over.
func (r *reading) look() {
	var next *coming
	for c := r.first; c != nil; c = next {
		if next = c.next; c.Err() != nil {
			r.remove(c)
		}
	}
	r.looked = r.calls
}

// remove takes out a call, once. The lock is held.
func (r *reading) remove(c *coming) {
	if c.read {
		return
	}
	c.read = true
	r.calls--
	if c.prev == nil {
		r.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
}

// count counts a message that has been read, until what is held is released.
func (s *server) count(c *coming, call *oipgrpc.Call) (held inflight.Held, err error) {
	if c == nil {
		return held, nil
	}
	n := int64(call.Size)
	r := &s.reading
	r.mu.Lock()
	r.remove(c)
	r.large = max(n, r.large-r.large/forget)
	r.mu.Unlock()
	return s.hold(call)
}

// hold counts a message until what is held is released.
func (s *server) hold(call *oipgrpc.Call) (inflight.Held, error) {
	held := s.options.Bytes.Begin(call.Request.Pipeline)
	err := held.Grow(int64(call.Size))
	return held, err
}
