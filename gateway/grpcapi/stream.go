package grpcapi

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// atOnce is how many requests of one stream are under way at most; then it is read no further.
const atOnce = 1024

// failure is the message of a request by a stream that failed.
type failure []byte

// stream is one call of ModelStreamInfer: requests are answered as they are done, with their IDs.
type stream struct {
	grpc.ServerStream
	of    *server
	conn  *conn
	holds *call
	calls chan streamCall

	sending sync.Mutex

	mu     sync.Mutex
	cancel map[int64]context.CancelFunc // by number
}

// streamCall is a request with its context.
type streamCall struct {
	*incoming
	ctx context.Context
}

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
		call := streamCall{in, s.Context()}
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
		if err != nil {
			s.fail(call, err)
		} else if !s.send(a) {
			a.kept.release()
		}
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
