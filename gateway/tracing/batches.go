package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// remembered is how many batches are known at once. The requests of a batch end
// together, so few are needed.
const remembered = 256

// batches remembers the spans of the latest batches.
type batches struct {
	mu    sync.Mutex
	spans map[any]trace.SpanContext
	order [remembered]any
	next  int
}

// find is the span of a batch; write writes it, once.
func (b *batches) find(batch any, write func() trace.SpanContext) trace.SpanContext {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s, ok := b.spans[batch]; ok {
		return s
	}
	if b.spans == nil {
		b.spans = make(map[any]trace.SpanContext, remembered)
	}
	delete(b.spans, b.order[b.next])
	b.order[b.next] = batch
	b.next = (b.next + 1) % remembered
	s := write()
	b.spans[batch] = s
	return s
}
