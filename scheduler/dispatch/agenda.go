package dispatch

import (
	"time"
)

// Agenda is a binary heap of small whole numbers by time, the earliest at the
// top; of equal times, the smallest number. Every number is in it at most
// once and can be moved or taken out. The zero Agenda has room for none: see
// Reserve.
type Agenda struct {
	Heap []AgendaEntry
	Pos  []int32 // by number: its place in heap, plus one; 0 where it is absent
}

// AgendaEntry is a number and its time.
type AgendaEntry struct {
	At  time.Duration
	Key int32
}

// NewAgenda makes an agenda for the numbers below keys; it allocates nothing later.
func NewAgenda(keys int) Agenda {
	return Agenda{Heap: make([]AgendaEntry, 0, max(keys, apart/16)), Pos: make([]int32, keys, max(keys, apart/4))}
}

// apart is the least memory, in bytes, that a slice is given: smaller ones may
// share a cache line with those of another core, which costs half the speed.
const apart = 512

// Reserve makes room for numbers below keys.
func (a *Agenda) Reserve(keys int) {
	for len(a.Pos) < keys {
		a.Pos = append(a.Pos, 0)
	}
}

// Len is how many numbers stand in it.
func (a *Agenda) Len() int { return len(a.Heap) }

// Has reports whether the number is in it.
func (a *Agenda) Has(key int32) bool { return a.Pos[key] != 0 }

// Next is the earliest time, or Never.
func (a *Agenda) Next() time.Duration {
	if len(a.Heap) == 0 {
		return Never
	}
	return a.Heap[0].At
}

// Top is the number at that time; there must be one.
func (a *Agenda) Top() int32 { return a.Heap[0].Key }

// Entries are all of them, in no particular order; not to be changed, and to be
// forgotten before the next change of the agenda.
func (a *Agenda) Entries() []AgendaEntry { return a.Heap }

// Set puts the number at that time, wherever it stood before.
func (a *Agenda) Set(key int32, at time.Duration) {
	i := int(a.Pos[key]) - 1
	if i < 0 {
		a.Heap = append(a.Heap, AgendaEntry{})
		a.up(len(a.Heap)-1, AgendaEntry{at, key})
		return
	}
	was := a.Heap[i]
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
	i := int(a.Pos[key]) - 1
	if i < 0 {
		return
	}
	a.Pos[key] = 0
	last := len(a.Heap) - 1
	e := a.Heap[last]
	a.Heap = a.Heap[:last]
	if i == last {
		return
	}
	if i > 0 && e.before(a.Heap[(i-1)/2]) {
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
		if !e.before(a.Heap[parent]) {
			break
		}
		a.put(i, a.Heap[parent])
		i = parent
	}
	a.put(i, e)
}

// down fills the hole at i with e, moving it away from the top.
func (a *Agenda) down(i int, e AgendaEntry) {
	for {
		child := 2*i + 1
		if child >= len(a.Heap) {
			break
		}
		if right := child + 1; right < len(a.Heap) && a.Heap[right].before(a.Heap[child]) {
			child = right
		}
		if !a.Heap[child].before(e) {
			break
		}
		a.put(i, a.Heap[child])
		i = child
	}
	a.put(i, e)
}

func (a *Agenda) put(i int, e AgendaEntry) {
	a.Heap[i] = e
	a.Pos[e.Key] = int32(i) + 1
}
