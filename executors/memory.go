package executors

import (
	"context"
	"sync"
)

// MemoryBound is on the bytes that batches take. Take takes n of them until release is called, or
// says that they are too many, as a *wire.Error.
type MemoryBound interface {
	Take(n int64) (release func(), err error)
}

// ReserveMemory takes n bytes of the host's MemoryBound for a batch, before they are used: until
// release is called, or else until the batch has ended and its answers were handed on.
// ctx is what the engine's Run was given.
func ReserveMemory(ctx context.Context, n int64) (release func(), err error) {
	h, ok := ctx.Value(holdKey{}).(*hold)
	if !ok || n <= 0 {
		return func() {}, nil
	}
	if release, err = h.of.Take(n); err != nil {
		return nil, err
	}
	release = sync.OnceFunc(release)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, release)
	return release, nil
}

// holdKey is the key of a batch's hold in its context.
type holdKey struct{}

// hold is what a batch has reserved.
type hold struct {
	of  MemoryBound
	mu  sync.Mutex
	all []func()
}

// WithMemory lets a batch reserve of a MemoryBound until done is called; nil bounds nothing.
func WithMemory(ctx context.Context, m MemoryBound) (_ context.Context, done func()) {
	if m == nil {
		return ctx, func() {}
	}
	h := &hold{of: m}
	return context.WithValue(ctx, holdKey{}, h), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, release := range h.all {
			release()
		}
	}
}
