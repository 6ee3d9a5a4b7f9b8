package child

import (
	"encoding/binary"

	"github.com/harpagon/harpagon/wire"
)

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
