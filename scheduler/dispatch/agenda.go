package dispatch

import (
	"time"
)

// Agenda is a binary heap of small whole numbers by time, the earliest at the
// top; of equal times, the smallest number. Every number stands in it at most
// once and can be moved or taken out. The zero Agenda has room for none: see
// Reserve.
type Agenda struct {
	heap []AgendaEntry
	pos  []int32 // by number: its place in heap, plus one; 0 where it is absent
}

// AgendaEntry is a number and its time.
type AgendaEntry struct {
	At  time.Duration
	Key int32
}

// NewAgenda makes an agenda for the numbers below keys; it allocates nothing later.
func NewAgenda(keys int) Agenda {
	return Agenda{heap: make([]AgendaEntry, 0, max(keys, apart/16)), pos: make([]int32, keys, max(keys, apart/4))}
}

// apart is the least memory, in bytes, that a slice is given: smaller ones may
// share a cache line with those of another core, which costs half the speed.
const apart = 512

// Reserve makes room for numbers below keys.
func (a *Agenda) Reserve(keys int) {
	for len(a.pos) < keys {
		a.pos = append(a.pos, 0)
	}
}

// Len is how many numbers stand in it.
func (a *Agenda) Len() int { return len(a.heap) }

// Has reports whether the number stands in it.
func (a *Agenda) Has(key int32) bool { return a.pos[key] != 0 }

// Next is the earliest time, or Never.
func (a *Agenda) Next() time.Duration {
	if len(a.heap) == 0 {
		return Never
	}
	return a.heap[0].At
}

// Top is the number at that time; there must be one.
func (a *Agenda) Top() int32 { return a.heap[0].Key }

// Entries are all of them, in no particular order; not to be changed, and to be
// forgotten before the next change of the agenda.
func (a *Agenda) Entries() []AgendaEntry { return a.heap }

// Set puts the number at that time, wherever it stood before.
func (a *Agenda) Set(key int32, at time.Duration) {
	i := int(a.pos[key]) - 1
	if i < 0 {
		a.heap = append(a.heap, AgendaEntry{})
		a.up(len(a.heap)-1, AgendaEntry{at, key})
		return
	}
	was := a.heap[i]
	switch e := (AgendaEntry{at, key}); {
	case at == was.At:
	case e.before(was):
		a.up(i, e)
	default:
		a.down(i, e)
	}
}

// Drop takes the number out, if it is there.
func (a *Agenda) Drop(key int32) {
	i := int(a.pos[key]) - 1
	if i < 0 {
		return
	}
	a.pos[key] = 0
	last := len(a.heap) - 1
	e := a.heap[last]
	a.heap = a.heap[:last]
	if i == last {
		return
	}
	if i > 0 && e.before(a.heap[(i-1)/2]) {
		a.up(i, e)
	} else {
		a.down(i, e)
	}
}

func (e AgendaEntry) before(f AgendaEntry) bool { return e.At < f.At || e.At == f.At && e.Key < f.Key }

// up fills the hole at i with e, moving it towards the top.
func (a *Agenda) up(i int, e AgendaEntry) {
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(a.heap[parent]) {
			break
		}
		a.put(i, a.heap[parent])
		i = parent
	}
	a.put(i, e)
}

// down fills the hole at i with e, moving it away from the top.
func (a *Agenda) down(i int, e AgendaEntry) {
	for {
		child := 2*i + 1
		if child >= len(a.heap) {
			break
		}
		if right := child + 1; right < len(a.heap) && a.heap[right].before(a.heap[child]) {
			child = right
		}
		if !a.heap[child].before(e) {
			break
		}
		a.put(i, a.heap[child])
		i = child
	}
	a.put(i, e)
}

func (a *Agenda) put(i int, e AgendaEntry) {
	a.heap[i] = e
	a.pos[e.Key] = int32(i) + 1
}
