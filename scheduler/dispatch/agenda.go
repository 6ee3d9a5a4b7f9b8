package dispatch

// agenda is a binary heap of small whole numbers by time, the earliest at the
// top; of equal times, the smallest number. Every number stands in it at most
// once and can be moved or taken out. It never shrinks.
type agenda struct {
	heap []entry
	pos  []int32 // by number: its place in heap, plus one; 0 where it is absent
}

type entry struct {
	at  Time
	key int32
}

func newAgenda(keys int) agenda {
	return agenda{heap: make([]entry, 0, keys), pos: make([]int32, keys)}
}

// reserve makes room for numbers below keys.
func (a *agenda) reserve(keys int) {
	for len(a.pos) < keys {
		a.pos = append(a.pos, 0)
	}
}

func (a *agenda) len() int { return len(a.heap) }

func (a *agenda) has(key int32) bool { return a.pos[key] != 0 }

// next is the earliest time, or never.
func (a *agenda) next() Time {
	if len(a.heap) == 0 {
		return never
	}
	return a.heap[0].at
}

func (a *agenda) top() int32 { return a.heap[0].key }

// set puts the number at that time, wherever it stood before.
func (a *agenda) set(key int32, at Time) {
	i := int(a.pos[key]) - 1
	if i < 0 {
		a.heap = append(a.heap, entry{})
		a.up(len(a.heap)-1, entry{at, key})
		return
	}
	was := a.heap[i]
	switch e := (entry{at, key}); {
	case at == was.at:
	case e.before(was):
		a.up(i, e)
	default:
		a.down(i, e)
	}
}

// drop takes the number out, if it is there.
func (a *agenda) drop(key int32) {
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

func (e entry) before(f entry) bool { return e.at < f.at || e.at == f.at && e.key < f.key }

// up fills the hole at i with e, moving it towards the top.
func (a *agenda) up(i int, e entry) {
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
func (a *agenda) down(i int, e entry) {
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

func (a *agenda) put(i int, e entry) {
	a.heap[i] = e
	a.pos[e.key] = int32(i) + 1
}
