package child

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/harpagon/harpagon/wire"
)

// Items travel as
//
//	items    u32, then per item
//	tensors  u32, then per tensor
//	         datatype length u8, datatype
//	         rank u8, extents i64 each
//	         data length u32, data
//
// all little-endian.

var errDamaged = errors.New("child: damaged tensors in a message")

const leastTensor = 6 // bytes of a tensor without datatype, extents and data

// itemsSize is the number of bytes that appendItems adds.
func itemsSize(items [][]wire.Tensor) int {
	n := 4
	for _, item := range items {
		n += 4
		for i := range item {
			n += leastTensor + len(item[i].Datatype) + 8*len(item[i].Shape) + len(item[i].Data)
		}
	}
	return n
}

func appendItems(b []byte, items [][]wire.Tensor) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(items)))
	for _, item := range items {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(item)))
		for i := range item {
			var err error
			if b, err = appendHead(b, &item[i]); err != nil {
				return nil, err
			}
			b = append(b, item[i].Data...)
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

// checkItems says whether the items can be written, before any of them is.
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

// appendHead adds a tensor without its data.
func appendHead(b []byte, t *wire.Tensor) ([]byte, error) {
	if err := checkHead(t); err != nil {
		return nil, err
	}
	b = append(append(b, byte(len(t.Datatype))), t.Datatype...)
	b = append(b, byte(len(t.Shape)))
	for _, d := range t.Shape {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(t.Data))), nil
}

// direct is the size from which a tensor's data is written as it lies instead of
// being copied into the frame first.
const direct = 64 << 10

// writeItems writes a frame of items and returns its buffer for the next.
func writeItems(w io.Writer, frame []byte, k kind, items [][]wire.Tensor, most int) ([]byte, error) {
	n := itemsSize(items)
	if n > most {
		return frame, tooLarge(n, most)
	}
	frame = startFrame(frame, k)
	binary.LittleEndian.PutUint32(frame, uint32(n))
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(items)))
	for _, item := range items {
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(item)))
		for i := range item {
			var err error
			if frame, err = appendHead(frame, &item[i]); err != nil {
				return frame, err
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

// parseItems reads items whose data point into b.
func parseItems(b []byte) ([][]wire.Tensor, error) {
	c := cursor{rest: b}
	items := make([][]wire.Tensor, c.count(4))
	for i := range items {
		items[i] = make([]wire.Tensor, c.count(leastTensor))
		for j := range items[i] {
			items[i][j] = c.tensor()
		}
	}
	if c.bad || len(c.rest) > 0 {
		return nil, errDamaged
	}
	return items, nil
}

// cursor reads from a message; once something is missing it yields zeros.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) take(n int) []byte {
	if n > len(c.rest) {
		c.bad, c.rest = true, nil
		return nil
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

// count reads the number of things that follow, each of at least that size, so
// that a wrong number cannot ask for memory that the message does not hold.
func (c *cursor) count(size int) int {
	n := c.uint32()
	if n > len(c.rest)/size {
		c.bad, c.rest = true, nil
		return 0
	}
	return n
}

func (c *cursor) tensor() wire.Tensor {
	t := wire.Tensor{Datatype: datatype(c.take(c.uint8()))}
	t.Shape = make([]int64, c.uint8())
	for i := range t.Shape {
		if b := c.take(8); b != nil {
			t.Shape[i] = int64(binary.LittleEndian.Uint64(b))
		}
	}
	t.Data = c.take(c.uint32())
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
