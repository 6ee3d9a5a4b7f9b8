package grpcapi

import (
	"context"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
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

// receive reads the next message of a call into a request, whose held the caller releases.
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
// room: on a stream, the caller is found by the message's number.
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

// tap refuses a call before its message is read: from callers that are not admitted, and where
// what is under way leaves no room for it.
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

// isOpen reports that the method needs no credentials; Check needs none for the gateway as a
// whole.
func isOpen(method string) bool {
	switch method {
	case pb.GRPCInferenceService_ServerLive_FullMethodName, pb.GRPCInferenceService_ServerReady_FullMethodName, health.Health_Check_FullMethodName:
		return true
	}
	return false
}

// mostStrangers bounds the calls of callers that are not authenticated.
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

// An answer that has waited to be read for suspicious may be one that gRPC has forgotten
// (see answer), which the collection of garbage then finds: there is one every two minutes
// at least. After patience its connection ends, so that a caller who never reads does not
// keep out the others for ever.
const (
	suspicious = time.Minute
	patience   = 4 * time.Minute
)

// kept is what an answer counts for until it is written.
type kept struct {
	held  gateway.HeldBytes
	since time.Time
	among *unread // nil where the connection is unknown
	over  atomic.Bool

	answer     *answer // nil once it is suspicious
	next, prev *kept   // of the same connection
}

// release gives back what is held, once.
func (k *kept) release() {
	if !k.over.CompareAndSwap(false, true) {
		return
	}
	k.held.Release()
	if k.among != nil {
		k.among.remove(k)
	}
}

// suspect releases what is kept when its answer is garbage, to which it must not lead.
func (k *kept) suspect() {
	if k.answer != nil {
		runtime.AddCleanup(k.answer, (*kept).release, k)
		k.answer = nil
	}
}

// unread are the answers of one connection that are not written yet, in the order in
// which they came. The zero one is ready.
type unread struct {
	mu          sync.Mutex
	first, last *kept
	watch       *time.Timer // runs while there may be any
	ended       bool
}

// add takes one more; on is the connection. What comes after its end is given back
// by gRPC, which cannot write it.
func (u *unread) add(k *kept, on io.Closer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return
	}
	k.among = u
	if k.prev = u.last; k.prev == nil {
		u.first = k
	} else {
		k.prev.next = k
	}
	u.last = k
	if u.watch == nil {
		u.watch = time.AfterFunc(suspicious, func() { u.look(on) })
	}
}

func (u *unread) remove(k *kept) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if k.prev != nil {
		k.prev.next = k.next
	} else if u.first == k {
		u.first = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	} else if u.last == k {
		u.last = k.prev
	}
	k.next, k.prev = nil, nil
}

// look suspects what has waited long, ends the connection when one has waited too long,
// and looks again when there may be more of either.
func (u *unread) look(on io.Closer) {
	u.mu.Lock()
	for k := u.first; k != nil && time.Since(k.since) >= suspicious; k = k.next {
		k.suspect()
	}
	late := u.first != nil && time.Since(u.first.since) >= patience
	if u.first == nil || u.ended || late {
		u.watch = nil
	} else {
		u.watch.Reset(suspicious)
	}
	u.mu.Unlock()
	if late {
		_ = on.Close()
	}
}

// end releases what the connection still holds: gRPC does not report what it was writing.
func (u *unread) end() {
	u.mu.Lock()
	u.ended = true
	if u.watch != nil {
		u.watch.Stop()
	}
	first := u.first
	u.mu.Unlock()
	for first != nil {
		first.release()
		u.mu.Lock()
		first = u.first
		u.mu.Unlock()
	}
}
