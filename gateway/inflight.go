package gateway

import (
	"sync"

	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/wire"
)

// ByteLimits are in bytes; 0 bounds nothing.
type ByteLimits struct {
	Total       int64 // of all requests
	PerPipeline int64 // of the requests to one
}

// Bytes counts. It is safe for concurrent use; nil bounds nothing.
type Bytes struct {
	limits ByteLimits

	mu    sync.Mutex
	total int64
	most  int64            // that total has been
	by    map[string]int64 // by pipeline, where each is bounded
}

// NewBytes makes a count with limits; nil where these bound nothing.
func NewBytes(l ByteLimits) *Bytes {
	if l.Total <= 0 && l.PerPipeline <= 0 {
		return nil
	}
	return &Bytes{limits: l, by: map[string]int64{}}
}

// HeldBytes is what one request holds. It is for one goroutine at a time.
type HeldBytes struct {
	of       *Bytes
	pipeline string
	bytes    int64
}

// Begin is a request that holds nothing yet; its pipeline is empty where that is not known,
// see Assign. Release it in the end.
func (b *Bytes) Begin(pipeline string) HeldBytes { return HeldBytes{of: b, pipeline: pipeline} }

// Grow takes n bytes more, or returns that they are too many and holds what it held.
func (h *HeldBytes) Grow(n int64) error {
	b := h.of
	if b == nil || n <= 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if limit := b.limits.Total; limit > 0 && b.total+n > limit {
		return bytesRefusal(n, b.total, limit, "the gateway", "--max-bytes")
	}
	if limit := b.limits.PerPipeline; limit > 0 && h.pipeline != "" {
		if held := b.by[h.pipeline]; held+n > limit {
			return bytesRefusal(n, held, limit, "the pipeline", "--max-bytes-per-pipeline")
		}
		b.by[h.pipeline] += n
	}
	b.total += n
	b.most = max(b.most, b.total)
	h.bytes += n
	return nil
}

// Assign counts the request to a pipeline, if there is room for it there.
func (h *HeldBytes) Assign(pipeline string) error {
	n := h.bytes
	if h.of == nil || h.of.limits.PerPipeline <= 0 {
		h.pipeline = pipeline
		return nil
	}
	h.Release()
	h.pipeline = pipeline
	return h.Grow(n)
}

// Move gives at most n bytes to another request, atomically, and returns how many. Neither has
// a pipeline yet.
func (h *HeldBytes) Move(n int64, to *HeldBytes) int64 {
	n = max(min(n, h.bytes), 0)
	h.bytes, to.bytes = h.bytes-n, to.bytes+n
	return n
}

// Shrink gives n bytes back.
func (h *HeldBytes) Shrink(n int64) {
	b := h.of
	if n = min(n, h.bytes); b == nil || n <= 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total -= n
	if b.limits.PerPipeline > 0 && h.pipeline != "" {
		if b.by[h.pipeline] -= n; b.by[h.pipeline] == 0 {
			delete(b.by, h.pipeline)
		}
	}
	h.bytes -= n
}

func bytesRefusal(n, held, limit int64, whose, flag string) error {
	return wire.Errorf(wire.CodeOverloaded, "", "the request needs %s more, and requests under way hold %s of the %s that %s may (%s); try again when some are answered",
		quantity.Bytes(n), quantity.Bytes(held), quantity.Bytes(limit), whose, flag)
}

// Release gives everything back.
func (h *HeldBytes) Release() { h.Shrink(h.bytes) }

// Take takes n bytes for a step of a module, until release is called.
func (b *Bytes) Take(n int64) (release func(), err error) {
	h := b.Begin("")
	if h.Grow(n) != nil {
		return nil, wire.Errorf(wire.CodeOverloaded, "", "a step needs %s of memory, and the %s that requests under way may take here have no room for it; send what is smaller, or try again when some are answered",
			quantity.Bytes(n), quantity.Bytes(b.limits.Total))
	}
	return h.Release, nil
}

// Now is how much is held, and Most how much has been at the same time.
func (b *Bytes) Now() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Most is the most that has been held at the same time.
func (b *Bytes) Most() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.most
}
