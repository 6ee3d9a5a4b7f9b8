package simulate

import (
	"math"
	"time"
)

// Time is an instant of the virtual clock: the duration since its start.
type Time = time.Duration

// never is the instant that does not come.
const never = Time(math.MaxInt64)

// calendar is a heap of whole numbers by time: everything that can happen has a
// number, and stands in it at most once. Of what happens together, the smallest
// number comes first. It holds no more than it was made for, so it does not
// allocate.
type calendar struct {
	heap []date
	pos  []int32 // by number: its place in heap, plus one; 0 where it is absent
}

type date struct {
	at  Time
	key int32
}

func newCalendar(keys int) calendar {
	return calendar{heap: make([]date, 0, keys), pos: make([]int32, keys)}
}

func (d date) before(o date) bool { return d.at < o.at || d.at == o.at && d.key < o.key }

// next is the first date; its time is never where there is none.
func (c *calendar) next() date {
	if len(c.heap) == 0 {
		return date{at: never, key: -1}
	}
	return c.heap[0]
}

// set puts the number at that time, wherever it stood before.
func (c *calendar) set(key int32, at Time) {
	i := int(c.pos[key]) - 1
	d := date{at, key}
	if i < 0 {
		c.heap = append(c.heap, d)
		c.up(len(c.heap)-1, d)
		return
	}
	if d.before(c.heap[i]) {
		c.up(i, d)
	} else {
		c.down(i, d)
	}
}

// clear takes the number out, if it is there.
func (c *calendar) clear(key int32) {
	i := int(c.pos[key]) - 1
	if i < 0 {
		return
	}
	c.pos[key] = 0
	last := len(c.heap) - 1
	d := c.heap[last]
	c.heap = c.heap[:last]
	switch {
	case i == last:
	case i > 0 && d.before(c.heap[(i-1)/2]):
		c.up(i, d)
	default:
		c.down(i, d)
	}
}

// up fills the hole at i with d, moving it towards the top.
func (c *calendar) up(i int, d date) {
	for i > 0 {
		parent := (i - 1) / 2
		if !d.before(c.heap[parent]) {
			break
		}
		c.put(i, c.heap[parent])
		i = parent
	}
	c.put(i, d)
}

// down fills the hole at i with d, moving it away from the top.
func (c *calendar) down(i int, d date) {
	for {
		child := 2*i + 1
		if child >= len(c.heap) {
			break
		}
		if right := child + 1; right < len(c.heap) && c.heap[right].before(c.heap[child]) {
			child = right
		}
		if !c.heap[child].before(d) {
			break
		}
		c.put(i, c.heap[child])
		i = child
	}
	c.put(i, d)
}

func (c *calendar) put(i int, d date) {
	c.heap[i] = d
	c.pos[d.key] = int32(i) + 1
}
