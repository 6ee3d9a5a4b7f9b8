package oipgrpc

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/harpagon/harpagon/wire"
	pb "github.com/harpagon/harpagon/wire/oip/oipgrpc/inferencepb"
)

// A call of its own costs a request several times what a message does. So requests of a client
// that has several under way at once share streams, which stay open for a while. A single one has
// a call of its own, which is sooner there, and so have large ones and those that are traced.
const (
	// fewest requests under way have calls of their own.
	fewest = 3

	// Messages of requests beyond largest bytes have calls of their own, and so have those for which
	// the streams have no room: on each are at most ahead bytes that are not answered, so that
	// together with one more they stay below the 64 KiB that gRPC takes in without waiting for
	// the other side. A server that hangs must not hang its callers. frame is what a message takes
	// besides, with the one that takes it back.
	largest = 16 << 10
	ahead   = 32 << 10
	frame   = 64

	mostStreams = 4

	// life is how long a stream takes requests. Whoever balances calls between servers moves
	// streams by it, too.
	life = 5 * time.Second

	// retry is how long a server is not asked for streams that does not know of them.
	retry = time.Minute
)

// NumberedKey is the header by which a server says that by a stream it answers with the numbers
// of requests.
const NumberedKey = "harpagon-numbered"

// streams are those of a client.
type streams struct {
	under atomic.Int32 // requests of the client, however they are sent
	last  atomic.Int64 // number of a request

	mu      sync.Mutex
	open    []*stream
	opening bool
	again   time.Time // when the server is asked for streams again that did not know of them
}

// stream is one of them. Its lock is held while a message is sent.
type stream struct {
	grpc.ClientStream

	mu      sync.Mutex
	over    bool // takes no more requests
	ended   bool // and has told the server so, or is broken
	bytes   int  // that are not answered
	pending map[int64]pending
}

// pending is a request of so many bytes that is not answered, and who waits for it; nil
// where that one has gone.
type pending struct {
	by   *waiting
	size int
}

// waiting is a caller.
type waiting struct {
	done   chan struct{} // gets one when the rest is there
	came   streamed
	broken error // of the stream
}

var waitings = sync.Pool{New: func() any { return &waiting{done: make(chan struct{}, 1)} }}

// byStream asks by a stream. asked is false where that cannot be: the server has not got the
// request, then.
func (c *Client) byStream(ctx context.Context, q *question) (r *wire.InferResponse, asked bool, err error) {
	if !c.options.Streams || q.version != "" || trace.SpanContextFromContext(ctx).IsValid() {
		return nil, false, nil
	}
	if _, more := metadata.FromOutgoingContext(ctx); more {
		return nil, false, nil
	}
	number := c.streams.last.Add(1)
	var room [headRoom]byte
	m, err := request(room[:0], q.request, "", q.timeout, number)
	if err != nil || m.Size() > largest {
		return nil, false, nil // a call reports the error; here it would end the stream
	}
	s, w := c.send(number, m.Append(make([]byte, 0, m.Size())))
	if s == nil {
		return nil, false, nil
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if s.withdraw(number, ctx.Err()) {
			waitings.Put(w)
			return nil, true, c.explain(ctx, &sending{sent: true}, status.FromContextError(ctx.Err()).Err())
		}
		<-w.done // it is being answered
	}
	came, broken := w.came, w.broken
	w.came, w.broken = streamed{}, nil
	waitings.Put(w)
	switch {
	case broken != nil:
		return nil, true, c.explain(ctx, &sending{sent: true, trailer: s.Trailer()}, broken)
	case came.status != nil:
		return nil, true, c.explain(ctx, &sending{sent: true, told: true}, came.status)
	case came.err != nil:
		return nil, true, unreadable(came.err)
	}
	return came.answer, true, nil
}

// send sends the message of a request by a stream with room; nil where there is none, and then there
// may be one more soon.
func (c *Client) send(number int64, m []byte) (*stream, *waiting) {
	all := &c.streams
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, s := range all.open {
		if w := s.send(number, m); w != nil {
			return s, w
		}
	}
	if !all.opening && len(all.open) < mostStreams && c.conn.GetState() == connectivity.Ready && time.Now().After(all.again) {
		all.opening = true
		go c.openStream()
	}
	return nil, nil
}

var streamDesc = pb.GRPCInferenceService_ServiceDesc.Streams[0]

// errNumbers is why a server is not asked by streams.
var errNumbers = errors.New("the server does not answer with numbers")

// openStream opens a stream, if the server knows of numbers.
func (c *Client) openStream() {
	ctx, quit := context.WithCancel(c.outgoing(context.Background()))
	defer quit()
	s := &stream{pending: map[int64]pending{}}
	err := s.open(ctx, c.conn, quit)
	c.streams.mu.Lock()
	c.streams.opening = false
	if err == nil {
		c.streams.open = append(c.streams.open, s)
	} else if status.Code(err) != codes.Unavailable {
		c.streams.again = time.Now().Add(retry)
	}
	c.streams.mu.Unlock()
	if err != nil {
		return
	}
	go func() { // a server that is about to end says so to the connection
		limited, done := context.WithTimeout(ctx, life)
		defer done()
		c.conn.WaitForStateChange(limited, connectivity.Ready)
		c.retire(s)
	}()
	s.receive()
	c.retire(s)
}

// open waits for the server to say that it answers with numbers.
func (s *stream) open(ctx context.Context, conn *grpc.ClientConn, quit context.CancelFunc) (err error) {
	patience := time.AfterFunc(connectWithin, quit)
	defer patience.Stop()
	s.ClientStream, err = conn.NewStream(ctx, &streamDesc, pb.GRPCInferenceService_ModelStreamInfer_FullMethodName, grpc.StaticMethod())
	if err != nil {
		return err
	}
	header, err := s.Header()
	if err != nil || len(header.Get(NumberedKey)) > 0 {
		return err
	}
	quit() // unless it has ended by itself, which RecvMsg tells
	return cmp.Or(s.RecvMsg(new(streamed)), errNumbers)
}

// retire ends a stream: it takes no more requests, and ends when those under way are answered.
func (c *Client) retire(s *stream) {
	c.streams.mu.Lock()
	c.streams.open = slices.DeleteFunc(c.streams.open, func(o *stream) bool { return o == s })
	c.streams.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.finish()
}

// finish tells the server that no more requests come, once, when that is so. The lock is held.
func (s *stream) finish() {
	if s.over && !s.ended && len(s.pending) == 0 {
		s.ended = true
		_ = s.CloseSend()
	}
}

// send sends the message of a request if there is room for it; nil where there is none. Where the stream
// is broken, the request is answered with that.
func (s *stream) send(number int64, m []byte) *waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.bytes > ahead {
		return nil
	}
	w := waitings.Get().(*waiting)
	s.pending[number] = pending{w, len(m) + frame}
	s.bytes += len(m) + frame
	_ = s.SendMsg(&sending{message: m}) // receive reports why it fails
	return w
}

// withdraw takes a request back; false where its answer has come. It counts until the server
// has answered it all the same, which knows of its deadline.
func (s *stream) withdraw(number int64, why error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pending[number]
	if !ok {
		return false
	}
	s.pending[number] = pending{nil, p.size}
	if !s.ended && errors.Is(why, context.Canceled) {
		_ = s.SendMsg(&sending{message: cancellation(number)})
	}
	return true
}

// take takes a request out and returns who waits for it. The lock is held.
func (s *stream) take(number int64) *waiting {
	p := s.pending[number]
	delete(s.pending, number)
	s.bytes -= p.size
	return p.by
}

// receive hands answers over until the stream is over.
func (s *stream) receive() {
	for {
		var r streamed
		if err := s.RecvMsg(&r); err != nil {
			s.end(err)
			return
		}
		s.mu.Lock()
		w := s.take(r.number)
		s.finish()
		s.mu.Unlock()
		if w != nil {
			w.came = r
			w.done <- struct{}{}
		}
	}
}

// end tells all whose answers have not come.
func (s *stream) end(err error) {
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Unavailable, "the stream of requests ended")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over, s.ended = true, true
	for number := range s.pending {
		if w := s.take(number); w != nil {
			w.broken = err
			w.done <- struct{}{}
		}
	}
}
