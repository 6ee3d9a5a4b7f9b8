package tracing

import (
	"context"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/harpagon/harpagon/pipelines/quantity"
)

// again is how soon it is said once more that spans cannot be sent.
const again = time.Minute

// quiet tells of failures now and then, instead of at each.
type quiet struct {
	sdktrace.SpanExporter
	tell func(string)

	mu   sync.Mutex
	told time.Time
	lost int // spans since
}

// ExportSpans sends spans. A failure loses them: there is no error.
func (q *quiet) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost += len(spans)
	if q.tell != nil && time.Since(q.told) > again {
		q.tell("traces: " + quantity.Count(q.lost, "span") + " could not be sent: " + err.Error())
		q.told, q.lost = time.Now(), 0
	}
	return nil
}
