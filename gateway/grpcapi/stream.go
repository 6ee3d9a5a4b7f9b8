package grpcapi

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/harpagon/harpagon/wire/oip/oipgrpc"
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
	calls chan *oipgrpc.Call

	sending sync.Mutex

	mu     sync.Mutex
	cancel map[int64]context.CancelFunc // by number
}

// modelStreamInfer is the handler of ModelStreamInfer. It returns when the client has ended the stream
// and all has been answered, or is gone.
func modelStreamInfer(of any, g grpc.ServerStream) error {
	s := &stream{ServerStream: g, of: of.(*server), conn: connOf(g.Context()), calls: make(chan *oipgrpc.Call), cancel: map[int64]context.CancelFunc{}}
	if err := g.SendHeader(metadata.Pairs(oipgrpc.NumberedKey, "1")); err != nil {
		return err
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(s.calls)
	for n := 0; ; {
		call := new(oipgrpc.Call)
		switch err := s.RecvMsg(call); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case call.Cancel != 0:
			s.end(call.Cancel)
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
func (s *stream) work(call *oipgrpc.Call) {
	for ; call != nil; call = <-s.calls {
		s.answer(call)
	}
}

// answer answers a call. Where that fails, the stream is over.
func (s *stream) answer(call *oipgrpc.Call) {
	a, err := s.infer(call)
	s.sending.Lock()
	defer s.sending.Unlock()
	if err != nil {
		_ = s.SendMsg(failure(oipgrpc.Failure(call, err)))
	} else if s.SendMsg(a) != nil {
		a.kept.release()
	}
}

func (s *stream) infer(call *oipgrpc.Call) (*answer, error) {
	ctx, err := s.of.admit(s.Context(), call)
	if err != nil {
		return nil, err
	}
	held, err := s.of.hold(call)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	if call.Number != 0 {
		limited, cancel := context.WithCancel(ctx)
		ctx = limited
		s.begin(call.Number, cancel)
		defer s.end(call.Number)
	}
	r, err := s.of.run(ctx, call)
	if err != nil {
		return nil, err
	}
	var head, framed [headRoom]byte
	m, err := oipgrpc.Answer(head[:0], r, call.Raw)
	if err != nil {
		return nil, err
	}
	m = m.InStream(framed[:0], call.Number)
	return s.of.keep(s.conn, r.Pipeline, &m)
}

func (s *stream) begin(number int64, cancel context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel[number] = cancel
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
