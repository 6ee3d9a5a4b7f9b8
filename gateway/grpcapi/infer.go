package grpcapi

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// service is the protocol's, but for requests of inference: they are read into a call and
// answered from an answer of the backend, without the structs of their messages.
func service() *grpc.ServiceDesc {
	s := pb.GRPCInferenceService_ServiceDesc
	s.Methods = slices.Clone(s.Methods)
	for i := range s.Methods {
		handle := s.Methods[i].Handler
		if "/"+s.ServiceName+"/"+s.Methods[i].MethodName == pb.GRPCInferenceService_ModelInfer_FullMethodName {
			handle = modelInfer
		}
		s.Methods[i].Handler = ending(handle)
	}
	return &s
}

// modelInfer is the handler of ModelInfer.
func modelInfer(of any, ctx context.Context, read func(any) error, guard grpc.UnaryServerInterceptor) (any, error) {
	s := of.(*server)
	in, err := s.receive(callOf(ctx), read)
	if err != nil {
		return nil, err
	}
	defer in.held.Release()
	if guard == nil {
		return s.infer(ctx, in)
	}
	info := grpc.UnaryServerInfo{Server: of, FullMethod: pb.GRPCInferenceService_ModelInfer_FullMethodName}
	return guard(ctx, &in.Call, &info, func(ctx context.Context, _ any) (any, error) { return s.infer(ctx, in) })
}

// infer runs one request. The answer counts as held until it is written.
func (s *server) infer(ctx context.Context, in *incoming) (*answer, error) {
	if in.full != nil {
		return nil, oipgrpc.EncodeError(in.full)
	}
	c, within := connOf(ctx), ctx
	defer c.working()()
	in.Request.Arrived = c.arrival()
	if k := callOf(ctx); k == nil || k.traced {
		within = oipgrpc.Traced(within)
	}
	r, err := s.run(within, &in.Call)
	if err == nil {
		err = ctx.Err() // its caller is gone
	}
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	plain(ctx)
	a, err := s.encode(c, r, &in.Call, false)
	if err != nil {
		return nil, oipgrpc.EncodeError(err)
	}
	return a, nil
}

// run has the backend answer a call.
func (s *server) run(ctx context.Context, call *oipgrpc.Call) (*wire.InferResponse, error) {
	if call.Err != nil {
		return nil, call.Err
	}
	if call.Version != "" {
		if _, err := s.model(ctx, call.Request.Pipeline, call.Version); err != nil {
			return nil, err
		}
	}
	if call.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, call.Timeout)
		defer cancel()
		ctx = limited
	}
	return s.backend.Infer(ctx, &call.Request)
}

// Memory for answers comes in powers of two, in bytes, so that what is counted is what is
// allocated. gRPC does not report that it is done with buffers below smallest; what is larger
// than largest is allocated for itself.
const (
	smallest, largest = 1 << smallestBits, 1 << largestBits

	smallestBits, largestBits = 11, 20
)

// pools have memory of every size between.
var pools = func() mem.BufferPool {
	var sizes []uint8
	for n := uint8(smallestBits); n <= largestBits; n++ {
		sizes = append(sizes, n)
	}
	p, err := mem.NewBinaryTieredBufferPool(sizes...)
	if err != nil {
		panic(err)
	}
	return p
}()

// headRoom is what most answers need in bytes beside the data of their tensors.
const headRoom = 1 << 10

// room is how much memory a message of so many bytes is given.
func room(size int) int {
	if size > largest {
		return size
	}
	return max(smallest, 1<<bits.Len(uint(max(size, 1)-1)))
}

// answer is a message that counts as held until gRPC is done with it, and then gives its
// memory back to the answer, as to a pool. gRPC forgets to when a call is cancelled while
// its answer is on the way; then the collection of garbage finds it.
type answer struct {
	data *[]byte
	kept *kept
}

// Get implements mem.BufferPool.
func (a *answer) Get(n int) *[]byte { return pools.Get(n) }

// Put implements mem.BufferPool.
func (a *answer) Put(data *[]byte) {
	a.kept.release()
	if cap(*data) <= largest {
		pools.Put(data)
	}
}

// encode makes the message of an answer, which counts as held, or returns that there is no
// room. On a stream it must not be larger than gRPC allows, because the refusal would end the
// stream.
func (s *server) encode(c *conn, r *wire.InferResponse, call *oipgrpc.Call, streamed bool) (a *answer, err error) {
	k := &kept{held: s.options.Bytes.Begin(r.Pipeline), since: time.Now()}
	defer func() {
		if err != nil {
			k.release()
		}
	}()
	if r, err = oip.Classify(r, call.Classes, k.held.Grow); err != nil {
		return nil, err
	}
	var head, framed [headRoom]byte
	m, err := oipgrpc.Answer(head[:0], r, call.Raw)
	if err != nil {
		return nil, err
	}
	if streamed {
		m = m.InStream(framed[:0], call.Number)
	}
	size := m.Size()
	if streamed && size > s.options.MaxMessage {
		return nil, status.Errorf(codes.ResourceExhausted, "the answer has %d bytes, and a message at most %d", size, s.options.MaxMessage)
	}
	if err := k.held.Grow(int64(room(size))); err != nil {
		return nil, err
	}
	a = &answer{kept: k}
	k.answer = a
	if size > largest {
		data := make([]byte, 0, size)
		a.data = &data
	} else {
		a.data = pools.Get(room(size))
	}
	*a.data = m.Append((*a.data)[:0])
	if c != nil {
		c.unread.add(k, c)
	} else {
		k.suspect()
	}
	return a, nil
}

// plain has the answer of a call sent as it is. Otherwise it would be compressed where
// the request was, into memory that is not counted.
func plain(ctx context.Context) {
	stream := grpc.ServerTransportStreamFromContext(ctx)
	if z, ok := stream.(interface{ RecvCompress() string }); ok && z.RecvCompress() != "" {
		_ = grpc.SetSendCompressor(ctx, encoding.Identity) // fails where the call is over
	}
}

// codec reads requests with room for them, and sends answers that are messages already, and anything else as gRPC does.
type codec struct {
	oipgrpc.Codec
	copying *sync.Mutex // a long message
}

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *answer:
		return mem.BufferSlice{mem.NewBuffer(m.data, m)}, nil
	case failure:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.Codec.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if in, ok := v.(*incoming); ok {
		return in.take(data.Len(), c.copying, func(call *oipgrpc.Call) error { return c.Codec.Unmarshal(data, call) })
	}
	return c.Codec.Unmarshal(data, v)
}

// atOnce is how many requests of one stream are under way at most; then it is read no further.
const atOnce = 1024

// failure is the message of a request by a stream that failed.
type failure []byte

// stream is one call of ModelStreamInfer: requests are answered as they are done, with their IDs, and
// frames of one stream go in and are answered in the order in which they came.
type stream struct {
	grpc.ServerStream
	of    *server
	conn  *conn
	holds *call
	calls chan streamCall

	sending sync.Mutex

	mu     sync.Mutex
	tails  map[frameStream]tail         // of each stream's latest frame; see follow
	cancel map[int64]context.CancelFunc // by number
}

// streamCall is a request with its context.
type streamCall struct {
	*incoming
	ctx context.Context

	before, its tail // of a frame: those of the one before it, and its own
}

// tail is of a frame: closed when it has gone in, and when it has been answered. nil for none.
type tail struct{ entered, answered chan struct{} }

// frameStream is a stream of a pipeline.
type frameStream struct{ pipeline, stream string }

// ModelStreamInfer implements the service. It returns when the client has ended the stream
// and all has been answered, or is gone. Messages are read and written without their structs.
func (s *server) ModelStreamInfer(g pb.GRPCInferenceService_ModelStreamInferServer) error {
	k := callOf(g.Context())
	defer k.end()
	if err := k.start(g.Context()); err != nil {
		return err
	}
	return (&stream{ServerStream: g, of: s, conn: connOf(g.Context()), holds: k, calls: make(chan streamCall), cancel: map[int64]context.CancelFunc{}}).serve()
}

func (s *stream) serve() error {
	plain(s.Context())
	if err := s.SendHeader(metadata.Pairs(oipgrpc.NumberedKey, "1")); err != nil {
		return err
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(s.calls)
	for n := 0; ; {
		in, err := s.of.receive(s.holds, s.RecvMsg)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		call := streamCall{incoming: in, ctx: s.Context()}
		if call.Cancel != 0 && call.Request.Pipeline == "" {
			in.held.Release()
			s.end(call.Cancel)
			continue
		}
		if err := s.begin(&call); err != nil {
			in.held.Release()
			s.fail(call, err)
			continue
		}
		call.Request.Arrived = s.conn.arrival()
		s.follow(&call)
		select {
		case s.calls <- call:
			continue
		default:
		}
		if n == atOnce {
			s.calls <- call
			continue
		}
		n++
		workers.Go(func() { s.work(call) })
	}
}

// work answers calls.
func (s *stream) work(call streamCall) {
	for ; call.incoming != nil; call = <-s.calls {
		a, err := s.infer(call)
		s.end(call.Number)
		if call.before.answered != nil {
			<-call.before.answered
		}
		if err != nil {
			s.fail(call, err)
		} else if !s.send(a) {
			a.kept.release()
		}
		s.followed(call)
	}
}

// follow puts a frame behind the one of its stream that came before.
func (s *stream) follow(call *streamCall) {
	f := &call.Request.Frame
	if f.Stream == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tails == nil {
		s.tails = make(map[frameStream]tail)
	}
	of := frameStream{call.Request.Pipeline, f.Stream}
	call.before, call.its = s.tails[of], tail{make(chan struct{}), make(chan struct{})}
	s.tails[of] = call.its
}

// followed lets the next frame of the stream be answered.
func (s *stream) followed(call streamCall) {
	if call.its.answered == nil {
		return
	}
	close(call.its.answered)
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := (frameStream{call.Request.Pipeline, call.Request.Frame.Stream}); s.tails[of] == call.its {
		delete(s.tails, of)
	}
}

// send sends an answer; false where the stream is over.
func (s *stream) send(m any) bool {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.SendMsg(m) == nil
}

func (s *stream) fail(call streamCall, err error) { s.send(failure(oipgrpc.Failure(&call.Call, err))) }

func (s *stream) infer(call streamCall) (*answer, error) {
	defer call.held.Release()
	if call.before.entered != nil {
		<-call.before.entered
	}
	if call.its.entered != nil {
		call.Request.InLine = sync.OnceFunc(func() { close(call.its.entered) })
		defer call.Request.InLine()
	}
	ctx, err := s.of.admit(call.ctx, &call.Call)
	if err != nil {
		return nil, err
	}
	if call.full != nil {
		return nil, call.full
	}
	defer s.conn.working()()
	r, err := s.of.run(ctx, &call.Call)
	if err != nil {
		return nil, err
	}
	return s.of.encode(s.conn, r, &call.Call, true)
}

// begin gives a request with a number a context that ends by it.
func (s *stream) begin(call *streamCall) error {
	if call.Number == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel[call.Number] != nil {
		return wire.Errorf(wire.CodeInvalid, "", "a request of number %d is under way already", call.Number)
	}
	call.ctx, s.cancel[call.Number] = context.WithCancel(call.ctx)
	return nil
}

// end ends the context of a request, if it has not ended.
func (s *stream) end(number int64) {
	s.mu.Lock()
	cancel := s.cancel[number]
	delete(s.cancel, number)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}
