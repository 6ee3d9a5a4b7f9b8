package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/harpagon/harpagon/wire/attach/attachpb"
	"github.com/harpagon/harpagon/wire/secure"
	"github.com/harpagon/harpagon/wire/stream"
)

// tcpStream is either side of a connection. Its user receives on a goroutine of its own,
// which reads the connection, and what it sends it writes itself.
type tcpStream struct {
	conn  *stream.Conn
	peer  string
	limit int    // bytes of a message
	first func() // is called when the first message has come; may be nil
	ends  bool   // Close reports that it is the end; else finish does

	held    atomic.Int64 // batches that were sent and have no result
	decided atomic.Bool  // the other side has lately sent that a batch is done

	receiving sync.Mutex // held by the reader
	over      error      // what Recv returns at last; under receiving

	mu     sync.Mutex
	ahead  []*Message // that Recv returns next
	wanted bool       // Recv waits for the goroutine that reads ahead
	closed bool
	why    error // it was aborted for
}

// watch ends the stream once the other side is silent, and has its pings read. It ends with the
// stream.
func (s *tcpStream) watch(patience time.Duration) {
	busy := func() bool {
		s.attend()
		return s.held.Load() > 0 || s.decided.Swap(false)
	}
	ask := func() {
		s.attend()
		_ = s.post(&Message{Ping: &Ping{}})
	}
	if s.conn.Listen(s.conn.Over(), patience, busy, ask) {
		s.abort(stream.ErrSilent)
	}
}

// attend has what comes read ahead if no Recv does.
func (s *tcpStream) attend() {
	if s.receiving.TryLock() {
		go func() {
			defer s.receiving.Unlock()
			for s.readAhead() {
			}
		}()
	}
}

// readAhead reads a message for the next Recv; false where that waits, or there is none.
func (s *tcpStream) readAhead() bool {
	s.mu.Lock()
	if s.wanted || s.closed || s.why != nil || s.over != nil {
		s.mu.Unlock()
		return false
	}
	_ = s.conn.SetReadDeadline(time.Time{})
	s.mu.Unlock()
	m, err := s.next()
	if err != nil {
		s.over = err
		return false
	}
	if m != nil {
		s.mu.Lock()
		s.ahead = append(s.ahead, m)
		s.mu.Unlock()
	}
	return true
}

// seen notes what a passing message changes.
func (s *tcpStream) seen(m *Message) {
	switch {
	case m.Batch != nil:
		s.held.Add(1)
	case m.Result != nil:
		s.held.Add(-1)
	case m.Done != nil:
		s.decided.Store(true)
	}
}

// Send implements attach.Stream.
func (s *tcpStream) Send(m *Message) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return errClosed
	}
	s.seen(m)
	return s.post(m)
}

// appendMessage adds the frame of a message.
func appendMessage(to []byte, m *Message) ([]byte, error) {
	p, err := Encode(m, time.Now())
	if err != nil {
		return nil, err
	}
	size := proto.Size(p)
	to = slices.Grow(to, size+stream.MostHead+1)
	to = append(stream.AppendLength(to, size+1), kindMessage)
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(to, p)
}

// roomFor is for the frames of small messages.
const roomFor = 512

// post sends a message.
func (s *tcpStream) post(m *Message) error {
	var room [roomFor]byte
	made, err := appendMessage(room[:0], m)
	if err == nil && len(made) > s.limit {
		err = fmt.Errorf("attach: a message of %d bytes; at most %d are allowed", len(made), s.limit)
	}
	if err != nil {
		s.abort(err)
		return err
	}
	if !s.conn.Send(made) {
		return io.ErrClosedPipe
	}
	return nil
}

// Recv implements attach.Stream.
func (s *tcpStream) Recv() (*Message, error) {
	s.takeOver()
	defer s.receiving.Unlock()
	for {
		if m, err := s.here(); m != nil || err != nil {
			return m, err
		}
		m, err := s.next()
		if err != nil {
			s.over = err
		}
		if m != nil || err != nil {
			return m, err
		}
	}
}

// takeOver stops the goroutine that reads ahead.
func (s *tcpStream) takeOver() {
	if s.receiving.TryLock() {
		return
	}
	s.mu.Lock()
	s.wanted = true
	s.wake()
	s.mu.Unlock()
	s.receiving.Lock()
	s.mu.Lock()
	s.wanted = false
	s.mu.Unlock()
}

// here is what need not be read.
func (s *tcpStream) here() (*Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.why != nil:
		return nil, s.why
	case len(s.ahead) > 0:
		m := s.ahead[0]
		s.ahead = s.ahead[1:]
		return m, nil
	case s.over != nil:
		return nil, s.over
	}
	return nil, s.conn.SetReadDeadline(time.Time{}) // by which others have woken us
}

// next reads until there is a message for Recv, or it is woken: then there is neither that
// nor an error.
func (s *tcpStream) next() (*Message, error) {
	for {
		f, err := s.conn.Next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, nil
		}
		if err != nil {
			return nil, s.cause(err)
		}
		m, err := s.read(f)
		switch {
		case err != nil:
			return nil, err
		case m.Ping != nil:
			_ = s.post(&Message{Pong: &Ping{}})
			continue
		case m.Pong != nil:
			continue
		}
		if s.first != nil {
			s.first()
			s.first = nil
		}
		s.seen(m)
		return m, nil
	}
}

// read is the message in a frame; an error is what Recv returns at last.
func (s *tcpStream) read(f []byte) (*Message, error) {
	if len(f) > 0 && f[0] == kindEnd {
		if len(f) == 1 {
			return nil, io.EOF
		}
		return nil, errors.New(string(f[1:]))
	}
	var p pb.Message
	if len(f) == 0 || f[0] != kindMessage {
		return nil, errEmpty
	}
	if err := proto.Unmarshal(f[1:], &p); err != nil {
		return nil, err
	}
	return Decode(&p, time.Now())
}

// cause is why reading has failed.
func (s *tcpStream) cause(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.why != nil:
		return s.why
	case s.closed:
		return errClosed
	case err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return secure.Explain(err, s.peer)
}

// wake has a waiting Recv look at what is here.
func (s *tcpStream) wake() { _ = s.conn.SetReadDeadline(time.Unix(1, 0)) }

// Inject has Recv return the message; see attach.Inject.
func (s *tcpStream) Inject(m *Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.why != nil {
		return false
	}
	s.ahead = append(s.ahead, m)
	s.wake()
	return true
}

// abort ends the stream at once; Recv returns why.
func (s *tcpStream) abort(why error) {
	s.mu.Lock()
	if s.why == nil {
		s.why = why
	}
	s.mu.Unlock()
	s.conn.End(why)
}

// late has Recv return why, while messages to the other side may still be sent.
func (s *tcpStream) late(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.why = why
	s.wake()
}

// Close implements attach.Stream.
func (s *tcpStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.wake()
	if s.ends {
		go s.finish("", linger)
	}
	return nil
}

// linger is how long after a Close the connection is kept for the other side to read what
// was sent and to close in its turn.
const linger = 10 * time.Second

// finish sends the end, and returns when the other side has sent its own, or the time is over.
func (s *tcpStream) finish(why string, within time.Duration) {
	s.conn.Send(frame(kindEnd, why))
	s.conn.Flush(within)
	s.receiving.Lock()
	defer s.receiving.Unlock()
	_ = s.conn.SetReadDeadline(time.Now().Add(within))
	for s.over == nil {
		f, err := s.conn.Next()
		if err != nil {
			s.conn.Discard(int64(s.limit)) // of a message too large: what is left unread would reset the connection
			break
		}
		if len(f) > 0 && f[0] == kindEnd {
			break
		}
	}
	_ = s.conn.Close()
}
