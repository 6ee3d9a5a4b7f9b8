package child

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/harpagon/harpagon/wire"
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
const protocol = 5

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

// Items travel as
//
//	items    u32, then per item
//	tensors  u32, then per tensor
//	         datatype length u8, datatype
//	         rank u8, extents i64 each
//	         data length u32, data
//
// all little-endian. Where the data length has its highest bit set, the data lie
// in the shared memory, and their offset there follows, u64.

var errDamaged = errors.New("child: damaged tensors in a message")

const (
	leastTensor = 6       // bytes of a tensor without datatype, extents and data
	elsewhere   = 1 << 31 // in a data length: the data lie in the shared memory
	offsetSize  = 8
)

// itemsSize is the number of bytes that appendItems adds. Places are those of
// area.place; nil means that all data are inline.
func itemsSize(items [][]wire.Tensor, places []int) int {
	n, at := 4, 0
	for _, item := range items {
		n += 4
		for i := range item {
			n += leastTensor + len(item[i].Datatype) + 8*len(item[i].Shape)
			if placeOf(places, at) == inline {
				n += len(item[i].Data)
			} else {
				n += offsetSize
			}
			at++
		}
	}
	return n
}

// placeOf is the place of the tensor that is written as the nth.
func placeOf(places []int, n int) int {
	if places == nil {
		return inline
	}
	return places[n]
}

func appendItems(b []byte, items [][]wire.Tensor, places []int) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(items)))
	at := 0
	for _, item := range items {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(item)))
		for i := range item {
			var err error
			place := placeOf(places, at)
			if b, err = appendHead(b, &item[i], place); err != nil {
				return nil, err
			}
			if place == inline {
				b = append(b, item[i].Data...)
			}
			at++
		}
	}
	return b, nil
}

func checkHead(t *wire.Tensor) error {
	if len(t.Datatype) > 255 || len(t.Shape) > 255 {
		return errors.New("child: a tensor has a datatype or shape of more than 255 parts")
	}
	return nil
}

// checkItems reports whether the items can be written, before any of them is.
func checkItems(items [][]wire.Tensor) error {
	for _, item := range items {
		for i := range item {
			if err := checkHead(&item[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendHead adds a tensor without its inline data.
func appendHead(b []byte, t *wire.Tensor, place int) ([]byte, error) {
	if err := checkHead(t); err != nil {
		return nil, err
	}
	b = append(append(b, byte(len(t.Datatype))), t.Datatype...)
	b = append(b, byte(len(t.Shape)))
	for _, d := range t.Shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	if place == inline {
		return binary.LittleEndian.AppendUint32(b, uint32(len(t.Data))), nil
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Data))|elsewhere)
	return binary.LittleEndian.AppendUint64(b, uint64(place)), nil
}

// direct is the size from which a tensor's data is written as it lies instead of
// being copied into the frame first.
const direct = 64 << 10

// writeItems writes a frame of items and returns its buffer for the next.
func writeItems(w io.Writer, frame []byte, k kind, items [][]wire.Tensor, places []int, most int) ([]byte, error) {
	n := itemsSize(items, places)
	if n > most {
		return frame, tooLarge(n, most)
	}
	frame = startFrame(frame, k)
	binary.LittleEndian.PutUint32(frame, uint32(n))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(items)))
	at := 0
	for _, item := range items {
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(item)))
		for i := range item {
			var err error
			place := placeOf(places, at)
			if frame, err = appendHead(frame, &item[i], place); err != nil {
				return frame, err
			}
			at++
			if place != inline {
				continue
			}
			if len(item[i].Data) < direct {
				frame = append(frame, item[i].Data...)
				continue
			}
			if _, err := w.Write(frame); err != nil {
				return frame, err
			}
			if _, err := w.Write(item[i].Data); err != nil {
				return frame, err
			}
			frame = frame[:0]
		}
	}
	_, err := w.Write(frame)
	return frame, err
}

// parser reads items. What it returns may lie in its own memory, and is then
// valid until the next parse.
type parser struct {
	shared  []byte // where data lie that are not in the message
	items   [][]wire.Tensor
	tensors []wire.Tensor
	extents []int64
}

// parse reads items whose data point into b or the shared memory.
func (p *parser) parse(b []byte) ([][]wire.Tensor, error) {
	c := cursor{rest: b, shared: p.shared, extents: p.extents[:0]}
	n := c.count(4)
	p.items = sized(p.items, n)
	tensors := p.tensors[:0]
	for i := range p.items {
		width := c.count(leastTensor)
		if i == 0 {
			tensors = room(tensors, min(n*width, len(c.rest)/leastTensor))
		}
		tensors = room(tensors, width)
		from := len(tensors)
		for range width {
			tensors = append(tensors, c.tensor())
		}
		p.items[i] = tensors[from:len(tensors):len(tensors)]
	}
	p.tensors, p.extents = tensors, c.extents
	if c.bad || len(c.rest) > 0 {
		return nil, errDamaged
	}
	return p.items, nil
}

// sized is a slice of n elements, in the old one's memory where that suffices.
func sized[T any](s []T, n int) []T {
	if s == nil || cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// room is a slice that takes n more elements without moving: where it cannot, a
// new one, for what was put into the old stays in use.
func room[T any](s []T, n int) []T {
	if s != nil && cap(s)-len(s) >= n {
		return s
	}
	return make([]T, 0, max(n, 2*cap(s)))
}

// cursor reads from a message; once something is missing it yields zeros.
type cursor struct {
	rest    []byte
	bad     bool
	shared  []byte
	extents []int64
}

func (c *cursor) fail() []byte {
	c.bad, c.rest = true, nil
	return nil
}

func (c *cursor) take(n int) []byte {
	if n > len(c.rest) {
		return c.fail()
	}
	taken := c.rest[:n:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) uint8() int {
	if b := c.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (c *cursor) uint32() int {
	if b := c.take(4); b != nil {
		return int(binary.LittleEndian.Uint32(b))
	}
	return 0
}

func (c *cursor) uint64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// count reads the number of things that follow, each of at least that size, so
// that a wrong number cannot ask for memory that the message does not hold.
func (c *cursor) count(size int) int {
	n := c.uint32()
	if n > len(c.rest)/size {
		c.fail()
		return 0
	}
	return n
}

func (c *cursor) tensor() wire.Tensor {
	t := wire.Tensor{Datatype: datatype(c.take(c.uint8()))}
	rank := c.uint8()
	c.extents = room(c.extents, rank)
	from := len(c.extents)
	for range rank {
		c.extents = append(c.extents, int64(c.uint64()))
	}
	t.Shape = c.extents[from:len(c.extents):len(c.extents)]
	n := c.uint32()
	if n < elsewhere {
		t.Data = c.take(n)
		return t
	}
	n -= elsewhere
	at := c.uint64()
	if c.bad || c.shared == nil || n > len(c.shared) || at > uint64(len(c.shared)-n) {
		c.fail()
		return t
	}
	t.Data = c.shared[at : int(at)+n : int(at)+n]
	return t
}

// datatype avoids an allocation for the common ones.
func datatype(b []byte) string {
	switch string(b) {
	case "FP32":
		return "FP32"
	case "UINT8":
		return "UINT8"
	case "INT64":
		return "INT64"
	case "BYTES":
		return "BYTES"
	}
	return string(b)
}
