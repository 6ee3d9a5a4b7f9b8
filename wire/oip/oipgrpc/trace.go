package oipgrpc

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
)

// withTrace sends the W3C trace context of ctx along.
func withTrace(ctx context.Context) context.Context {
	sent := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, sent)
	for k, v := range sent {
		ctx = metadata.AppendToOutgoingContext(ctx, k, v)
	}
	return ctx
}

// traceKey is the name of the header that a trace comes with.
const traceKey = "traceparent"

// IsTraced says whether a trace comes with the headers of a call.
func IsTraced(came metadata.MD) bool { return len(came[traceKey]) > 0 }

// Traced is the context of a call, with the W3C trace context that came with it.
func Traced(ctx context.Context) context.Context {
	parents := metadata.ValueFromIncomingContext(ctx, traceKey)
	if len(parents) == 0 {
		return ctx
	}
	came := propagation.MapCarrier{traceKey: parents[0]}
	if states := metadata.ValueFromIncomingContext(ctx, "tracestate"); len(states) > 0 {
		came["tracestate"] = states[0]
	}
	return propagation.TraceContext{}.Extract(ctx, came)
}
