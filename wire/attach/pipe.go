package attach

import (
	"errors"
	"io"
	"sync"
)

// errClosed is what a side of a Pipe returns after it was closed itself.
var errClosed = errors.New("attach: the stream is closed")

// Pipe makes two ends of a stream within one process. Messages are handed over
// by pointer and not copied: the sender must not touch a message, nor the
// tensors in it, after Send. Send never blocks; a gateway keeps few batches in
// flight per executor, so what is underway stays small. What was sent before a
// Close still arrives, then Recv returns io.EOF.
func Pipe() (a, b Stream) {
	x, y := newQueue(), newQueue()
	return &pipe{in: x, out: y}, &pipe{in: y, out: x}
}

type pipe struct {
	in, out *queue
}

func (p *pipe) Send(m *Message) error   { return p.out.put(m) }
func (p *pipe) Recv() (*Message, error) { return p.in.take() }

func (p *pipe) Close() error {
	p.out.end(io.EOF)
	p.in.leave()
	return nil
}

// Abort closes an end of a Pipe as a broken connection would: once the other
// end has received what was sent before, its Recv returns err. Other streams
// are just closed.
func Abort(s Stream, err error) {
	if p, ok := s.(*pipe); ok {
		p.out.end(err)
	}
	_ = s.Close()
}

// inject hands a message to a stream as if the other side had sent it. It returns false where
// the stream is closed, or does not support it.
func inject(s Stream, m *Message) bool {
	i, ok := s.(interface{ Inject(*Message) bool })
	return ok && i.Inject(m)
}

// Inject is described at the function of that name.
func (p *pipe) Inject(m *Message) bool { return p.in.put(m) == nil }

// Direct has what comes to an end of a Pipe handled on the goroutine that sends it, in
// the order in which it is sent, instead of by Recv: a message then wakes no goroutine. An
// error of handle is what Recv returns at last, and so is the end of the stream, once nothing
// is handled any more. The other end must not be locked by what handle needs. It returns false,
// and changes nothing, where the stream is no end of a Pipe.
func Direct(s Stream, handle func(*Message) error) bool {
	p, ok := s.(*pipe)
	if ok {
		p.in.divert(handle)
	}
	return ok
}

// queue is one direction: a ring that grows when it must.
type queue struct {
	mu       sync.Mutex
	filled   sync.Cond // or ended, gone, or handling is done
	ring     []*Message
	head     int
	n        int
	ended    error // set when the sender has closed: what Recv returns at last
	gone     bool  // the receiver has closed
	handle   func(*Message) error
	handling int // messages
}

const firstRing = 8

func newQueue() *queue {
	q := &queue{ring: make([]*Message, firstRing)}
	q.filled.L = &q.mu
	return q
}

func (q *queue) put(m *Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ended != nil:
		return errClosed
	case q.gone:
		return io.ErrClosedPipe
	case q.handle != nil:
		q.hand(m)
		return nil
	}
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.head+q.n)%len(q.ring)] = m
	q.n++
	q.filled.Signal()
	return nil
}

// hand has a message handled, without the lock, which is held before and after.
func (q *queue) hand(m *Message) {
	q.handling++
	q.mu.Unlock()
	err := q.handle(m)
	q.mu.Lock()
	if q.handling--; q.ended == nil {
		q.ended = err
	}
	if q.handling == 0 && (q.ended != nil || q.gone) {
		q.filled.Broadcast()
	}
}

// divert has messages handled that come from now on, after those that are there.
func (q *queue) divert(handle func(*Message) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n > 0 {
		m := q.pop()
		q.mu.Unlock()
		err := handle(m)
		q.mu.Lock()
		if err != nil && q.ended == nil {
			q.ended = err
		}
	}
	q.handle = handle
}

func (q *queue) grow() {
	bigger := make([]*Message, 2*len(q.ring))
	for i := range q.n {
		bigger[i] = q.ring[(q.head+i)%len(q.ring)]
	}
	q.ring, q.head = bigger, 0
}

func (q *queue) take() (*Message, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.n == 0 && q.ended == nil && !q.gone || q.handling > 0 {
		q.filled.Wait()
	}
	switch {
	case q.gone:
		return nil, errClosed
	case q.n == 0:
		return nil, q.ended
	}
	return q.pop(), nil
}

// pop takes the oldest message out. The lock is held.
func (q *queue) pop() *Message {
	m := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	return m
}

// end is the sender's closing; the first counts.
func (q *queue) end(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended == nil {
		q.ended = why
	}
	q.filled.Broadcast()
}

// leave is the receiver's closing.
func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.gone = true
	clear(q.ring)
	q.n = 0
	q.filled.Broadcast()
}
