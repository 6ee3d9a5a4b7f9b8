package tracing

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/harpagon/harpagon/gateway"
)

// request writes the trace of one request, if it is sampled.
func (t *Tracer) request(r gateway.TraceInfo) {
	came := context.WithoutCancel(r.Context)
	begin := func(ctx context.Context) (context.Context, trace.Span) {
		return t.tracer.Start(ctx, "infer "+r.Pipeline, trace.WithTimestamp(r.Arrived), trace.WithSpanKind(trace.SpanKindServer))
	}
	ctx, span := begin(came)
	if !span.IsRecording() {
		if !t.wanted(r.Outcome) {
			return
		}
		ctx, span = begin(context.WithValue(came, keep{}, true))
	}
	ctx = context.WithValue(ctx, keep{}, true) // a trace is whole or not there
	span.SetAttributes(
		attribute.String("harpagon.service", r.Pipeline),
		attribute.Int("harpagon.generation", r.Generation),
		attribute.String("harpagon.request.id", r.ID),
		attribute.String("harpagon.outcome", r.Outcome.String()),
		ms("elapsed", r.Elapsed),
	)
	if r.Budget > 0 {
		span.SetAttributes(ms("budget", r.Budget), attribute.Bool("harpagon.in_time", r.Outcome == gateway.Completed))
	}
	for _, s := range r.Steps() {
		t.step(ctx, &r, s)
	}
	switch {
	case r.Err != nil:
		span.SetStatus(codes.Error, r.Err.Error())
	case r.Outcome == gateway.Late:
		span.SetStatus(codes.Error, "answered after its deadline")
	}
	span.End(trace.WithTimestamp(r.Ended))
}

// step writes one run of a module.
func (t *Tracer) step(ctx context.Context, r *gateway.TraceInfo, s gateway.StepInfo) {
	ctx, span := t.tracer.Start(ctx, s.Module, trace.WithTimestamp(s.Begin), trace.WithAttributes(
		attribute.String("harpagon.module", s.Module), attribute.Bool("harpagon.completed", s.Completed)))
	if !s.Completed {
		if r.Err != nil && (r.Err.Stage == s.Module || r.Err.Stage == "") {
			span.SetStatus(codes.Error, r.Err.Reason)
		}
		span.End(trace.WithTimestamp(r.Ended))
		return
	}
	way := max(s.End.Sub(s.Begin)-s.Queue-s.Wait-s.Compute, 0)
	span.SetAttributes(
		attribute.Bool("harpagon.critical", s.Critical),
		attribute.Int("harpagon.batch.size", s.Size),
		attribute.Int("harpagon.attempts", s.Attempts),
		ms("queue", s.Queue), ms("wait", s.Wait), ms("compute", s.Compute), ms("transfer", way),
	)
	on := []attribute.KeyValue{
		attribute.String("harpagon.executor", s.Executor), attribute.String("host.name", s.Host), attribute.String("harpagon.device", s.Device),
	}
	if s.Executor != "" {
		span.SetAttributes(on...)
	}
	link := t.batch(s, on)
	if link.SpanContext.IsValid() {
		span.AddLink(link)
	}
	spare := max(s.End.Sub(s.Started)-s.Compute, 0) / 2
	_, engine := t.tracer.Start(ctx, "engine", trace.WithTimestamp(s.Started.Add(spare)), trace.WithAttributes(ms("compute", s.Compute)))
	if link.SpanContext.IsValid() {
		engine.AddLink(link)
	}
	engine.End(trace.WithTimestamp(s.Started.Add(spare + s.Compute)))
	span.End(trace.WithTimestamp(s.End))
}

// batch is a link to the batch that a step ran in. The first step of it that is sampled
// writes its span.
func (t *Tracer) batch(s gateway.StepInfo, on []attribute.KeyValue) trace.Link {
	if s.Batch == nil {
		return trace.Link{}
	}
	of := t.batches.find(s.Batch, func() trace.SpanContext {
		_, span := t.tracer.Start(context.WithValue(context.Background(), keep{}, true), "batch "+s.Module,
			trace.WithTimestamp(s.Started), trace.WithAttributes(on...), trace.WithAttributes(
				attribute.String("harpagon.module", s.Module), attribute.Int("harpagon.batch.size", s.Size), ms("compute", s.Compute)))
		span.End(trace.WithTimestamp(s.End))
		return span.SpanContext()
	})
	return trace.Link{SpanContext: of}
}

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
