package child

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// kind says what a frame holds.
type kind byte

const (
	kindHello  kind = 1 // JSON hello; the child's first frame
	kindLoad   kind = 2 // JSON loadRequest; one for each model
	kindLoaded kind = 3 // JSON loadReply
	kindRun    kind = 4 // u32 place of the model, items
	kindResult kind = 5 // items
	kindFailed kind = 6 // JSON wire.Error
	kindNext   kind = 7 // as kindRun, of a batch that is sent while another is computed
)

// runKinds are the kinds of a batch by the part of the shared memory that it uses.
var runKinds = [maxHeld]kind{kindRun, kindNext}

// protocol is the number of this version of the frames. Both sides are the same
// program unless Options.Command says otherwise.
const protocol = 4

const headerSize = 5

// errTooLarge is wrapped by errors about frames above the agreed size.
var errTooLarge = errors.New("the message is too large")

// startFrame begins a frame in buf, whose old content is lost.
func startFrame(buf []byte, k kind) []byte {
	return append(buf[:0], 0, 0, 0, 0, byte(k))
}

// writeFrame fills in the length of a frame and writes it at once.
func writeFrame(w io.Writer, frame []byte, most int) error {
	n := len(frame) - headerSize
	if n > most {
		return tooLarge(n, most)
	}
	binary.LittleEndian.PutUint32(frame, uint32(n))
	_, err := w.Write(frame)
	return err
}

func tooLarge(n, most int) error {
	return fmt.Errorf("child: %w: %d bytes, at most %d are allowed; use smaller batches or raise MaxMessage", errTooLarge, n, most)
}

// writeJSON writes a frame with v as its body.
func writeJSON(w io.Writer, k kind, v any, most int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("child: %w", err)
	}
	return writeFrame(w, append(startFrame(nil, k), body...), most)
}

// reader reads frames. With reuse, a body is valid until the next one is read.
type reader struct {
	from   io.Reader
	most   int
	reuse  bool
	header [headerSize]byte
	buf    []byte
}

func (r *reader) read() (kind, []byte, error) {
	if _, err := io.ReadFull(r.from, r.header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(r.header[:4])
	if int64(n) > int64(r.most) {
		return 0, nil, fmt.Errorf("child: %w: %d bytes, at most %d are allowed", errTooLarge, n, r.most)
	}
	body := r.buf
	if !r.reuse || cap(body) < int(n) {
		body = make([]byte, n)
	}
	body = body[:n]
	if r.reuse {
		r.buf = body
	}
	if _, err := io.ReadFull(r.from, body); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return kind(r.header[4]), body, nil
}
