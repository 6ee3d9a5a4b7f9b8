package child

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/harpagon/harpagon/wire"
)

// kind states what a message is.
type kind byte

const (
	kindHello  kind = 1 // JSON hello; the child's first
	kindLoad   kind = 2 // JSON loadRequest; one for each model
	kindLoaded kind = 3 // JSON loadReply
	kindRun    kind = 4 // a batch
	kindResult kind = 5 // a batch
	kindFailed kind = 6 // JSON wire.Error
)

// protocol is the number of this version of the messages. Both sides are the same program
// unless Options.Command names another.
const protocol = 5

// message goes between parent and child: the length of its body and its kind, in headerSize
// bytes, and the body.
type message struct {
	kind kind
	body []byte
}

const headerSize = 5

func (m *message) failure() *wire.Error {
	e := new(wire.Error)
	if err := json.Unmarshal(m.body, e); err != nil {
		return wire.Errorf(wire.CodeInternal, "", "child: a damaged error: %v", err)
	}
	return e
}

// longest is the most that a body may have: the data of tensors lie elsewhere.
const longest = 64 << 20

// readSize holds most messages.
const readSize = 16 << 10

// conn sends and receives messages, each by one goroutine at a time.
type conn struct {
	to      io.Writer
	from    *bufio.Reader
	sending []byte // the message that is begun
}

func newConn(from io.Reader, to io.Writer) *conn {
	return &conn{to: to, from: bufio.NewReaderSize(from, readSize)}
}

// sendJSON sends v as JSON.
func (c *conn) sendJSON(k kind, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("child: %w", err)
	}
	c.begin(k)
	c.sending = append(c.sending, body...)
	return c.send()
}

// begin begins a message, to which the body is to be appended before send.
func (c *conn) begin(k kind) { c.sending = append(c.sending[:0], 0, 0, 0, 0, byte(k)) }

// send sends the message at once.
func (c *conn) send() error {
	binary.LittleEndian.PutUint32(c.sending, uint32(len(c.sending)-headerSize))
	_, err := c.to.Write(c.sending)
	return err
}

func (c *conn) receive() (m message, err error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(c.from, header[:]); err != nil {
		return m, err
	}
	n := binary.LittleEndian.Uint32(header[:])
	if n > longest {
		return m, fmt.Errorf("child: a message of %d bytes, where %d are allowed", n, longest)
	}
	m.kind, m.body = kind(header[headerSize-1]), make([]byte, n)
	_, err = io.ReadFull(c.from, m.body)
	return m, err
}

// heads are the positions of tensors.
type heads struct {
	model   int // place of the model that a batch is for
	part    int // of the shared memory
	items   int
	columns [][]rows // by input or output
}

func (h *heads) append(b []byte) []byte {
	add := func(all ...int) {
		for _, v := range all {
			b = binary.AppendVarint(b, int64(v))
		}
	}
	add(h.model, h.part, h.items, len(h.columns))
	for _, column := range h.columns {
		add(len(column))
		for _, r := range column {
			add(r.count, r.at, r.size, len(r.datatype), len(r.shape))
			b = append(b, r.datatype...)
			for _, d := range r.shape {
				b = binary.AppendVarint(b, d)
			}
		}
	}
	return b
}

var errDamaged = errors.New("child: damaged tensors in a message")

// parse reads what append has written.
func (h *heads) parse(b []byte) error {
	damaged := false
	number := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			damaged, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	count := func() int { // of what takes a byte or more each
		n := number()
		if n < 0 || n > int64(len(b)) {
			damaged, n = true, 0
		}
		return int(n)
	}
	h.model, h.part, h.items = int(number()), int(number()), int(number())
	h.columns = make([][]rows, count())
	for j := range h.columns {
		h.columns[j] = make([]rows, count())
		for i := range h.columns[j] {
			r := &h.columns[j][i]
			r.count, r.at, r.size = int(number()), int(number()), int(number())
			name, rank := count(), count()
			if name > len(b) {
				return errDamaged
			}
			r.datatype, b = string(b[:name]), b[name:]
			r.shape = make([]int64, rank)
			for k := range r.shape {
				r.shape[k] = number()
			}
		}
	}
	if damaged || len(b) > 0 {
		return errDamaged
	}
	return nil
}
