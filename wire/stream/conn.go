package stream

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// ConnOptions of a Conn.
type ConnOptions struct {
	Buffer   int // bytes that are read at once
	MaxFrame int // bytes that a frame may have which comes
	First    int // the same before Admit; 0 means MaxFrame

	// Backlog is how many bytes may wait for a peer that does not read, before the
	// connection is given up with errBehind; 0 bounds nothing.
	Backlog int

	// Corked means that what is sent while several messages are handled that have come
	// together goes together, too.
	Corked bool

	// Held means that nothing is written before Release.
	Held bool

	// Reading is called repeatedly while a large frame is read, so that a sign of life can be sent
	// to its sender; may be nil.
	Reading func()
}

// errBehind means that the other side has not read for too long.
var errBehind = errors.New("the other side does not keep up: too much waits for it")

// AtLatest is when a frame goes that waits for another to go with.
const AtLatest = 100 * time.Millisecond

const (
	// mostInline is how many bytes the goroutine writes that has them; what is longer is
	// left to another, because it takes long to encrypt.
	mostInline = 64 << 10

	// corkedFor is how many frames that have come together are handled at most before what
	// was sent meanwhile goes.
	corkedFor = 256

	// reading is after how many bytes of a large frame Reading is called.
	reading = 128 << 10

	// keptRoom is how many bytes of memory at most are kept for the next frame.
	keptRoom = 2 << 20
)

// Conn is a connection of frames. Send may be called by many goroutines, Next by one.
type Conn struct {
	*LiveConn
	options ConnOptions
	prompt  *prompt // below it; nil where its writes may wait
	read    *bufio.Reader
	over    chan struct{} // closed when the connection has ended

	// Of the frame that is being read, where it is longer than the buffer.
	room []byte
	have int
	want int
	most int // that it may have

	handled int         // frames that have come together
	corked  atomic.Bool // more of them are about to be handled

	mu      sync.Mutex
	idle    sync.Cond // no write is under way
	pending []byte
	spare   []byte
	writing bool
	held    bool
	waits   bool // until some of what is pending is due
	broken  bool // writing has failed
	ended   error
}

// NewConn has frames travel over a connection. Close it.
func NewConn(c net.Conn, o ConnOptions) *Conn {
	if _, secured := c.(interface{ NetConn() net.Conn }); !secured {
		c = Prompt(c)
	}
	q := &Conn{LiveConn: keepAlive(c), options: o, prompt: promptOf(c), over: make(chan struct{}), held: o.Held, most: cmp.Or(o.First, o.MaxFrame)}
	q.read = bufio.NewReaderSize(q.LiveConn, o.Buffer)
	q.idle.L = &q.mu
	return q
}

// Over is closed when the connection has ended.
func (q *Conn) Over() <-chan struct{} { return q.over }

// Begin leaves a byte for the length of a frame, whose bytes are added next. Finish receives
// its index.
func Begin(to []byte) (begun []byte, at int) { return append(to, 0), len(to) }

// Finish completes the frame that has begun there. Most frames are short: one byte of
// length is in front, and the rest is moved where that does not do.
func Finish(to []byte, at int) []byte {
	n := uint64(len(to) - at - 1)
	if n < 1<<7 {
		to[at] = byte(n)
		return to
	}
	var length [binary.MaxVarintLen64]byte
	k := binary.PutUvarint(length[:], n)
	to = append(to, length[:k-1]...)
	copy(to[at+k:], to[at+1:])
	copy(to[at:], length[:k])
	return to
}

// MostHead is how many bytes the length of a frame takes at the most.
const MostHead = binary.MaxVarintLen64

// AppendLength begins a frame of so many bytes, which are added next: where their number is
// known nothing has to be moved by Finish.
func AppendLength(to []byte, bytes int) []byte { return binary.AppendUvarint(to, uint64(bytes)) }

// Send sends frames, as Begin and Finish have made them; what is sent while another write is under
// way goes together in the next. Short ones are copied, and those of more than 64 KiB are the
// connection's from then on. It does not wait. It returns false when the connection has ended;
// Next returns why.
func (q *Conn) Send(made []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.put(made) && q.unlessCorked()
}

// Copy is Send of frames that stay the caller's, whatever their length, so that they need
// no memory of their own.
func (q *Conn) Copy(made []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(made) && q.unlessCorked()
}

// SendLater has frames go with the next that are sent, so that they cost the other side
// no waking up of its own; by themselves where none are sent for a tenth of a second. The
// order is that of the calls.
func (q *Conn) SendLater(made []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.add(made) || q.writing || q.waits {
		return
	}
	q.waits = true
	time.AfterFunc(AtLatest, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.waits = false
		q.flush()
	})
}

// Release has what was sent so far written, and what is sent from now on; where instead
// is not nil, that alone.
func (q *Conn) Release(instead []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if instead != nil {
		q.pending = append(q.pending[:0], instead...)
	}
	q.held = false
	q.flush()
}

// put adds to what is pending, for good; false where the connection has ended. The lock is
// held.
func (q *Conn) put(made []byte) bool {
	if len(q.pending) > 0 || len(made) <= mostInline || q.ended != nil {
		return q.add(made)
	}
	if q.spare == nil {
		q.spare = q.pending[:0]
	}
	q.pending = made
	return q.keepsUp()
}

// add is put of a copy.
func (q *Conn) add(made []byte) bool {
	if q.ended != nil {
		return false
	}
	q.pending = append(q.pending, made...)
	return q.keepsUp()
}

// keepsUp ends the connection where the other side does not read.
func (q *Conn) keepsUp() bool {
	if q.options.Backlog > 0 && len(q.pending) > q.options.Backlog {
		q.check(errBehind)
	}
	return true
}

// unlessCorked has what is pending go now, where it does not go with more.
func (q *Conn) unlessCorked() bool {
	if !q.corked.Load() {
		q.flush()
	}
	return true
}

// flush has what is pending written. The lock is held, and is not for a while.
func (q *Conn) flush() {
	if q.writing || q.held || len(q.pending) == 0 || !q.mayWrite() {
		return
	}
	q.writing = true
	if q.prompt == nil || len(q.pending) > mostInline {
		go q.writeAll()
		return
	}
	q.writeOnce()
	if len(q.pending) > 0 && q.mayWrite() || q.prompt.busy() {
		go q.writeAll()
		return
	}
	q.rest()
}

// mayWrite reports that the connection stands, or has been closed in good order. The lock is
// held.
func (q *Conn) mayWrite() bool { return !q.broken && (q.ended == nil || q.ended == io.EOF) }

// rest ends writing. The lock is held.
func (q *Conn) rest() {
	q.writing = false
	q.idle.Broadcast()
}

// writeOnce writes what is pending. The lock is held before and after.
func (q *Conn) writeOnce() {
	batch := q.pending
	q.pending, q.spare = q.spare[:0], nil
	q.mu.Unlock()
	_, err := q.Write(batch)
	q.mu.Lock()
	if cap(batch) <= keptRoom {
		q.spare = batch
	}
	q.check(err)
}

// check ends the connection where writing has failed. The lock is held.
func (q *Conn) check(err error) {
	if err != nil {
		q.broken = true
		q.finish(err)
		go q.LiveConn.Close() // it may be called by what closing waits for
	}
}

// writeAll writes until nothing is pending, and waits until the kernel has taken it.
func (q *Conn) writeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.prompt != nil {
			q.mu.Unlock()
			err := q.prompt.wait()
			q.mu.Lock()
			q.check(err)
		}
		if len(q.pending) == 0 || !q.mayWrite() {
			q.rest()
			return
		}
		q.writeOnce()
	}
}

// finish notes why the connection has ended; the first reason counts. The lock is held.
func (q *Conn) finish(why error) {
	if q.ended == nil {
		q.ended = why
		close(q.over)
	}
}

// End ends the connection at once; Next returns why.
func (q *Conn) End(why error) {
	q.mu.Lock()
	q.finish(why)
	q.mu.Unlock()
	_ = q.LiveConn.Close()
}

// Flush sends what is pending, for so long at most, and takes nothing more to send.
func (q *Conn) Flush(within time.Duration) {
	_ = q.SetWriteDeadline(time.Now().Add(within))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finish(io.EOF)
	q.held = false
	q.flush()
	for q.writing {
		q.idle.Wait()
	}
}

// First reads bytes that are no frame, as many as there is room for.
func (q *Conn) First(into []byte) error {
	_, err := io.ReadFull(q.read, into)
	return err
}

// Admit lets frames have so many bytes from now on, at most MaxFrame: the other side has
// identified itself further. It is called by the caller of Next.
func (q *Conn) Admit(most int) { q.most = min(most, q.options.MaxFrame) }

// Discard reads what comes until the connection ends, but no more than so many bytes.
func (q *Conn) Discard(most int64) { _, _ = io.CopyN(io.Discard, q.read, most) }

// frameError is what is wrong with what has come. It counts also where the connection has
// ended meanwhile, as by a write to a peer that speaks another protocol and closes.
type frameError string

func (e frameError) Error() string { return string(e) }

// errLength is the error of an invalid length.
const errLength = frameError("a frame whose length is no number")

// Next waits for the next frame, which is valid until the next call. It returns io.EOF
// after the other side has closed. After os.ErrDeadlineExceeded, of a deadline for
// reading, it may be called again, and goes on where it was.
func (q *Conn) Next() ([]byte, error) {
	// Most frames lie in the buffer as a whole, and are read there.
	if lies, _ := q.read.Peek(q.read.Buffered()); len(lies) > 0 && q.want == 0 {
		n, k := binary.Uvarint(lies)
		if k > 0 && n <= uint64(len(lies)-k) {
			_, _ = q.read.Discard(k + int(n))
			q.cork()
			return lies[k : k+int(n) : k+int(n)], nil
		}
	}
	q.uncork()
	frame, err := q.wait()
	var wrong frameError
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.As(err, &wrong) {
		return nil, q.cause(err)
	}
	return frame, err
}

// wait reads a frame of which more is to come.
func (q *Conn) wait() ([]byte, error) {
	if q.want == 0 {
		n, k, err := q.length()
		switch {
		case err != nil:
			return nil, err
		case n > uint64(q.most):
			return nil, frameError(fmt.Sprintf("a message of %d bytes; at most %d are allowed", n, q.most))
		case k+int(n) <= q.read.Size():
			lies, err := q.read.Peek(k + int(n))
			if err != nil {
				return nil, unexpected(err)
			}
			_, _ = q.read.Discard(len(lies))
			return lies[k:], nil
		}
		_, _ = q.read.Discard(k)
		q.want, q.have = int(n), 0
	}
	// Room grows as bytes come, not as they are promised.
	const step = 64 << 10
	for q.have < q.want {
		if q.have == len(q.room) {
			q.room = append(q.room, make([]byte, min(max(step, q.have), q.want-q.have))...)
		}
		n, err := q.read.Read(q.room[q.have:min(len(q.room), q.want)])
		if q.have += n; q.have/reading > (q.have-n)/reading && q.options.Reading != nil {
			q.options.Reading()
		}
		if err != nil {
			return nil, unexpected(err)
		}
	}
	frame := q.room[:q.want]
	if q.want = 0; cap(q.room) > keptRoom {
		q.room = nil
	}
	return frame, nil
}

// length is that of the next frame, and of how many bytes it is made.
func (q *Conn) length() (n uint64, k int, err error) {
	for i := 1; i <= binary.MaxVarintLen64; i++ {
		lies, err := q.read.Peek(i)
		if err != nil {
			if i > 1 {
				err = unexpected(err)
			}
			return 0, 0, err
		}
		if lies[i-1] < 1<<7 {
			if n, k = binary.Uvarint(lies); k <= 0 {
				break
			}
			return n, k, nil
		}
	}
	return 0, 0, errLength
}

// unexpected is the error of an end within a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// cork keeps what is sent for a while, because more has come.
func (q *Conn) cork() {
	if !q.options.Corked {
		return
	}
	if q.handled++; q.read.Buffered() == 0 || q.handled%corkedFor == 0 {
		q.uncork()
	} else if !q.corked.Load() {
		q.corked.Store(true)
	}
}

// uncork has what was kept go.
func (q *Conn) uncork() {
	if !q.corked.Load() {
		return
	}
	q.corked.Store(false)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flush()
}

// Peek is the first byte of the next frame, where it lies in the buffer as a whole, and is
// short; false where that is not known.
func (q *Conn) Peek() (first byte, ok bool) {
	lies, _ := q.read.Peek(q.read.Buffered())
	if len(lies) < 2 || lies[0] >= 1<<7 || lies[0] == 0 || len(lies) <= int(lies[0]) {
		return 0, false
	}
	return lies[1], true
}

func (q *Conn) cause(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended != nil {
		return q.ended
	}
	return err
}
