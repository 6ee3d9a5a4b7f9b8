package grpcapi

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
	"github.com/harpagon/harpagon/wire/secure/securegrpc"
)

// incoming is a request with what it holds until it is answered.
type incoming struct {
	oipgrpc.Call
	by   *call // nil where its connection is not metered
	held gateway.HeldBytes
	full error // there is no room for it
}

// receive reads the next message of a call into a request, whose held is released by who has
// called.
func (s *server) receive(k *call, read func(any) error) (*incoming, error) {
	in := &incoming{by: k, held: s.options.Bytes.Begin("")}
	if err := read(in); err != nil {
		in.held.Release()
		return nil, err
	}
	if in.full == nil {
		in.full = in.held.Assign(in.Request.Pipeline)
	}
	return in, nil
}

// fewBytes is how long messages are that are copied without waiting, and even where there is no
// room: by a stream, its number says who is to be told.
const fewBytes = 64 << 10

// take copies a message to where its request finds it. Of long ones it is one at a time: while
// it is copied it is there twice.
func (in *incoming) take(size int, one *sync.Mutex, unmarshal func(*oipgrpc.Call) error) error {
	if in.full = in.by.read(size, &in.held); size > fewBytes {
		if in.full != nil {
			return nil
		}
		one.Lock()
		defer one.Unlock()
	}
	return unmarshal(&in.Call)
}

// tap refuses a call before its message is read: from who may not come in, and where what is
// under way leaves no room for it.
func (s *server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	known := securegrpc.Admits(ctx, s.options.Callers)
	if !known && !isOpen(info.FullMethodName) {
		return nil, status.Error(codes.Unauthenticated, s.options.Callers.Refusal("this gateway"))
	}
	c := connOf(ctx)
	if c == nil {
		return ctx, nil
	}
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	k := &call{traced: oipgrpc.IsTraced(info.Header)}
	switch info.FullMethodName {
	case pb.GRPCInferenceService_ModelInfer_FullMethodName:
		k.waits = true
	case pb.GRPCInferenceService_ModelStreamInfer_FullMethodName:
	default:
		k.waits, k.most = true, mostOther
	}
	bytes := s.options.Bytes
	if !known {
		bytes = nil // strangers take no room from others, for they are few
	}
	if c.begin(ctx, bytes, k) != nil {
		return nil, tooMuch()
	}
	if !known {
		s.strangers.enter(k)
	} else if !s.options.Callers.Open() {
		c.place.Prove()
	}
	return k, nil
}

// isOpen says that anybody may call the method.
func isOpen(method string) bool {
	return method == pb.GRPCInferenceService_ServerLive_FullMethodName || method == pb.GRPCInferenceService_ServerReady_FullMethodName
}

// mostStrangers bounds the calls of those who have not proven who they are.
const mostStrangers = 256

// strangers are those calls, in the order in which they came. Beyond mostStrangers the oldest
// is refused, if it is not over.
type strangers struct {
	mu  sync.Mutex
	all [mostStrangers]*call
	n   int
}

func (s *strangers) enter(k *call) {
	s.mu.Lock()
	oldest := s.all[s.n]
	s.all[s.n] = k
	s.n = (s.n + 1) % mostStrangers
	s.mu.Unlock()
	if oldest != nil {
		oldest.on.mu.Lock()
		defer oldest.on.mu.Unlock()
		oldest.refuse(tooMuch())
	}
}

func tooMuch() error {
	return oipgrpc.EncodeError(wire.Errorf(wire.CodeOverloaded, "", "requests under way hold as much memory as the gateway may (--max-bytes); try again when some are answered"))
}

// ending has a handler give back what its call holds.
func ending(handle grpc.MethodHandler) grpc.MethodHandler {
	return func(of any, ctx context.Context, read func(any) error, guard grpc.UnaryServerInterceptor) (any, error) {
		k := callOf(ctx)
		defer k.end()
		if err := k.start(ctx); err != nil {
			return nil, err
		}
		return handle(of, ctx, read, guard)
	}
}
