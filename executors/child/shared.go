package child

import (
	"sync"
	"unsafe"

	"github.com/harpagon/harpagon/wire"
)

// shared is memory that a parent and its child both see: batches lie in its first
// half, results in the second. Each half has a part for every batch that the child
// may hold, as large as a message may be; the system provides only what has been
// written to.
type shared struct {
	mu  sync.Mutex // held while the parent looks, because closing unmaps
	all []byte     // nil once unmapped
}

// alignment of what is lent: a cache line, and more than any element needs.
const alignment = 64

// size is that of all parts together.
func (s *shared) size() int {
	if s == nil {
		return 0
	}
	return len(s.all)
}

// requests is where the batch lies that uses that part, empty.
func (s *shared) requests(part int) area { return s.area(part) }

// results is where its results lie, empty.
func (s *shared) results(part int) area { return s.area(maxHeld + part) }

func (s *shared) area(i int) area {
	size := len(s.all) / (2 * maxHeld)
	return area{all: s.all, from: i * size, to: (i + 1) * size}
}

// area is a part of one half. It is filled from its beginning, anew for every
// batch, so that batches of the same shape find themselves at the same places.
type area struct {
	all      []byte
	from, to int
}

// allocate takes n bytes of the area; nil when it has not that many.
func (a *area) allocate(n int) []byte {
	at := (a.from + alignment - 1) &^ (alignment - 1)
	if n < 1 || n > a.to-at {
		return nil
	}
	a.from = at + n
	return a.all[at:a.from:a.from]
}

// offset says where data begin in the memory; false when they lie elsewhere.
func (a *area) offset(data []byte) (int, bool) {
	if len(data) == 0 {
		return 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(a.all)))
	return int(at), at < uintptr(len(a.all))
}

// inline is the place of a tensor whose data travel in the message itself.
const inline = -1

// place puts the items' data into the area, unless they lie in the memory
// already, and returns where: places[i*width+j] is for items[i][j]. What one
// input has in all items lies together, so that an engine can take it for one
// tensor with a batch dimension. Items of several widths stay inline: nil.
func (a *area) place(places []int, items [][]wire.Tensor) []int {
	if a.all == nil || len(items) == 0 {
		return nil
	}
	width := len(items[0])
	for _, item := range items {
		if len(item) != width {
			return nil
		}
	}
	places = append(places[:0], make([]int, len(items)*width)...)
	for j := range width {
		a.column(places[j:], items, width, j)
	}
	return places
}

func (a *area) column(places []int, items [][]wire.Tensor, width, j int) {
	total := 0
	for i, item := range items {
		at, here := a.offset(item[j].Data)
		if !here {
			at = inline
			total += len(item[j].Data)
		}
		places[i*width] = at
	}
	to := a.allocate(total)
	if to == nil {
		return
	}
	at, _ := a.offset(to)
	for i, item := range items {
		if data := item[j].Data; places[i*width] == inline && len(data) > 0 {
			places[i*width] = at
			at += copy(a.all[at:], data)
		}
	}
}

// take copies data out of the memory, in as few pieces as they lie in.
func (a *area) take(items [][]wire.Tensor) {
	if len(items) == 0 {
		return
	}
	for j := range items[0] {
		for i := 0; i < len(items); {
			i = a.piece(items, i, j)
		}
	}
}

// piece copies what lies in one piece from items[i][j] on, and returns the
// first i that does not belong to it.
func (a *area) piece(items [][]wire.Tensor, first, j int) int {
	if j >= len(items[first]) {
		return first + 1
	}
	begin, here := a.offset(items[first][j].Data)
	if !here {
		return first + 1
	}
	end, i := begin, first
	for ; i < len(items) && j < len(items[i]); i++ {
		at, here := a.offset(items[i][j].Data)
		if !here || at != end {
			break
		}
		end += len(items[i][j].Data)
	}
	data := append([]byte(nil), a.all[begin:end]...)
	for k := first; k < i; k++ {
		n := len(items[k][j].Data)
		items[k][j].Data, data = data[:n:n], data[n:]
	}
	return i
}
