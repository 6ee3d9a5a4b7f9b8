package sdk

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/harpagon/harpagon/wire"
)

// Stream sends the frames of one camera or session to a pipeline with a stream block. Results come
// in the order of the frames, one for each: a frame that was dropped has an error, like one that
// failed. Where a gateway is gone, frames go to another, with what modules have kept of those that were
// answered.
//
// Send and Receive may each be called from one goroutine.
type Stream struct {
	client   *Client
	ctx      context.Context
	pipeline string
	frame    wire.Frame
	answers  chan chan frameAnswer
	before   chan struct{} // closed when the last frame is on its way
	over     chan struct{} // closed when that is over
	stand    stand
	sent     int
	closed   bool         // no more are sent
	shift    atomic.Int64 // see Shift
}

type frameAnswer struct {
	result *Result
	err    error
}

// StreamAhead is how many frames of a Stream may be under way; Send waits then.
const StreamAhead = 16

// Stream opens a stream of that name, which no other that is open has. ctx is that of all its
// frames. The gateway takes it in with its first frame, or refuses that with ErrOverloaded where as
// many streams are open as the pipeline is planned for.
func (c *Client) Stream(ctx context.Context, pipeline, name string, options ...StreamOption) *Stream {
	none := make(chan struct{})
	close(none)
	s := &Stream{over: none, client: c, ctx: ctx, pipeline: pipeline, frame: wire.Frame{Stream: name, First: true}, answers: make(chan chan frameAnswer, StreamAhead)}
	for _, o := range options {
		o(s)
	}
	return s
}

// StreamOption configures a Stream.
type StreamOption func(*Stream)

// OfKind sets the kind of a stream, at a pipeline that has several. Without it, or where there is no
// such kind, frames fail with an error that names those that there are.
func OfKind(kind string) StreamOption { return func(s *Stream) { s.frame.Kind = kind } }

// Send sends the next frame. It waits while StreamAhead frames are under way or not received,
// so that whoever reads results slowly sends slowly, and fails where the stream is closed, has no
// name, or its context has ended.
func (s *Stream) Send(inputs Inputs, options ...InferOption) error {
	switch {
	case s.closed:
		return wire.Errorf(wire.CodeInvalid, "", "the stream is closed")
	case s.frame.Stream == "":
		return wire.Errorf(wire.CodeInvalid, "", "a stream has a name")
	}
	done := make(chan frameAnswer, 1)
	select {
	case s.answers <- done:
	case <-s.ctx.Done():
		return typed(s.ctx.Err())
	}
	frame, before, under, over := s.frame, s.before, make(chan struct{}), make(chan struct{})
	ctx := context.WithValue(s.ctx, standingKey{}, &standing{of: &s.stand, frame: s.sent, before: s.over})
	s.frame.First, s.before, s.over = false, under, over
	s.sent++
	all := slices.Concat(options, []InferOption{func(q *wire.InferRequest) { q.Frame = frame }})
	go func() {
		if before != nil { // goroutines begin in any order
			<-before
		}
		close(under)
		defer close(over)
		r, err := s.client.Infer(ctx, s.pipeline, inputs, all...)
		if err == nil {
			s.shift.Add(int64(r.answer().Shift))
		}
		done <- frameAnswer{r, err}
	}()
	return nil
}

// Shift is how much later than now the stream should send all frames to come, for the frames of
// streams to come one after the other and not together: less than a period, and 0 where it is well as
// it is. A gateway says so after the first frame, and again when clocks have drifted or other streams
// have come and gone. Each call takes what was said since the last one; whoever may choose when to send
// follows it.
func (s *Stream) Shift() time.Duration { return time.Duration(s.shift.Swap(0)) }

// SendLast is Send for the last frame of the stream, whose place another may take then. A stream
// without one keeps its place for ten seconds after its last frame.
func (s *Stream) SendLast(inputs Inputs, options ...InferOption) error {
	s.frame.Last = true
	defer s.Close()
	return s.Send(inputs, options...)
}

// Close reports that no more frames are sent. Results of those that were can still be received. It is
// for the goroutine that sends.
func (s *Stream) Close() {
	if !s.closed {
		s.closed = true
		close(s.answers)
	}
}

// Receive waits for the result of the next frame. The error is that of the frame, an *Error, or
// io.EOF after the result of the last one.
func (s *Stream) Receive() (*Result, error) {
	next, ok := <-s.answers
	if !ok {
		return nil, io.EOF
	}
	a := <-next
	return a.result, a.err
}
