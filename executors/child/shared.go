package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

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

// memorySize is that of all parts together, where batches have so many bytes at most.
func memorySize(most int) int {
	page := os.Getpagesize()
	return 2 * maxHeld * ((most + page - 1) / page * page)
}

// openShared maps memory of osutil.MemoryFile.
func openShared(file *os.File, most int) (*shared, error) {
	all, err := unix.Mmap(int(file.Fd()), 0, memorySize(most), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("child: memory that both processes see: %w", err)
	}
	return &shared{all: all}, nil
}

// close unmaps the memory once nothing uses it; it may be called more than once.
func (s *shared) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all != nil {
		_ = unix.Munmap(s.all)
		s.all = nil
	}
}

// requests is where the batch lies that uses that part, empty.
func (s *shared) requests(part int) area { return s.area(part) }

// results is where its results lie, empty.
func (s *shared) results(part int) area { return s.area(maxHeld + part) }

func (s *shared) area(i int) area {
	size := len(s.all) / (2 * maxHeld)
	return area{all: s.all, from: i * size, to: (i + 1) * size}
}

// area is a part of one half. It is filled from its beginning, again for every
// batch, so that batches of the same shape find themselves at the same places.
type area struct {
	all      []byte
	from, to int
}

// alignment of what is lent: a cache line, and more than any element needs.
const alignment = 64

// allocate takes n bytes of the area; nil when it has not that many.
func (a *area) allocate(n int) []byte {
	at := (a.from + alignment - 1) &^ (alignment - 1)
	if n < 1 || n > a.to-at {
		return nil
	}
	a.from = at + n
	return a.all[at:a.from:a.from]
}

// offset reports where data begin in the memory; false when they lie elsewhere.
func (a *area) offset(data []byte) (int, bool) {
	if len(data) == 0 {
		return 0, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data))) - uintptr(unsafe.Pointer(unsafe.SliceData(a.all)))
	return int(at), at < uintptr(len(a.all))
}

// rows are tensors of one input or output, of items that follow one another. Those that are
// alike and adjacent are described together.
type rows struct {
	count    int
	at, size int // of the first, and of each, in bytes
	datatype string
	shape    []int64
}

// errTooLarge is what a batch or its results are that find no room.
var errTooLarge = errors.New("more than a message may have; use smaller batches or raise MaxMessage")

// put puts the items' data into the area, unless they lie in the memory
// already, and reports where. What one
// input has in all items lies together, so that an engine can take it for one
// tensor with a batch dimension.
func (a *area) put(items [][]wire.Tensor) (columns [][]rows, err error) {
	if len(items) == 0 {
		return nil, nil
	}
	columns = make([][]rows, len(items[0]))
	for j := range columns {
		if columns[j], err = a.column(items, j); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

func (a *area) column(items [][]wire.Tensor, j int) (all []rows, err error) {
	total := 0
	for i, item := range items {
		if len(item) != len(items[0]) {
			return nil, fmt.Errorf("item %d has %d tensors where the first has %d", i+1, len(item), len(items[0]))
		}
		if _, here := a.offset(item[j].Data); !here {
			total += len(item[j].Data)
		}
	}
	to := a.allocate(total)
	if to == nil && total > 0 {
		return nil, fmt.Errorf("%d bytes are %w", total, errTooLarge)
	}
	next, _ := a.offset(to)
	for i := range items {
		t := &items[i][j]
		at, here := a.offset(t.Data)
		if !here {
			at = next
			next += copy(a.all[at:], t.Data)
		}
		if n := len(all) - 1; n >= 0 && all[n].datatype == t.Datatype && slices.Equal(all[n].shape, t.Shape) &&
			all[n].size == len(t.Data) && all[n].at+all[n].count*all[n].size == at {
			all[n].count++
			continue
		}
		all = append(all, rows{1, at, len(t.Data), t.Datatype, t.Shape})
	}
	return all, nil
}

// take reads n items, whose data stay where they are unless they are to be copied.
func (s *shared) take(n int, columns [][]rows, copied bool) ([][]wire.Tensor, error) {
	items, width := make([][]wire.Tensor, n), len(columns)
	tensors := make([]wire.Tensor, n*width)
	for i := range items {
		items[i] = tensors[i*width : (i+1)*width : (i+1)*width]
	}
	for j, column := range columns {
		i := 0
		for _, r := range column {
			if r.count < 1 || r.count > n-i || r.at < 0 || r.at > len(s.all) || r.size < 0 || r.size > (len(s.all)-r.at)/r.count {
				return nil, errDamaged
			}
			data := s.all[r.at : r.at+r.count*r.size]
			if copied {
				data = bytes.Clone(data)
			}
			for range r.count {
				items[i][j] = wire.Tensor{Datatype: r.datatype, Shape: r.shape, Data: data[:r.size:r.size]}
				data = data[r.size:]
				i++
			}
		}
		if i < n {
			return nil, errDamaged
		}
	}
	return items, nil
}
