package grpcapi

import (
	"context"
	"sync"

	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/gateway/inflight"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// reading estimates what requests will hold whose messages have not been read: gRPC
// tells how long a message is only when it has been.
type reading struct {
	mu     sync.Mutex
	unread int64
	large  int64 // of the largest messages lately
}

// forget is how fast the largest message is forgotten: by this part with each one.
const forget = 64

// unreadKey leads to what stops a call from counting as unread when it ends.
type unreadKey struct{}

// tap refuses a call before its message is read, where those under way and those
// that are being read leave no room for it.
func (s *server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != pb.GRPCInferenceService_ModelInfer_FullMethodName {
		return ctx, nil
	}
	r := &s.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.options.Bytes.Full((r.unread + 1) * r.large) {
		return nil, oipgrpc.EncodeError(wire.Errorf(wire.CodeOverloaded, "", "requests under way hold as much memory as the gateway may (--max-bytes); try again when some are answered"))
	}
	r.unread++
	stop := context.AfterFunc(ctx, r.came) // a call whose message never came
	return context.WithValue(ctx, unreadKey{}, stop), nil
}

// came counts one less that has not been read.
func (r *reading) came() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread--
}

// read counts a message that has been read, until what is held is released.
func (s *server) read(ctx context.Context, m *pb.ModelInferRequest) (held inflight.Held, err error) {
	if s.options.Bytes == nil {
		return held, nil
	}
	n := int64(proto.Size(m))
	if stop, ok := ctx.Value(unreadKey{}).(func() bool); ok && stop() {
		s.reading.came()
	}
	r := &s.reading
	r.mu.Lock()
	r.large = max(n, r.large-r.large/forget)
	r.mu.Unlock()
	held = s.options.Bytes.Begin(m.GetModelName())
	err = held.Grow(n)
	return held, err
}
