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

// Traced is the context of a call, with the W3C trace context that came with it.
func Traced(ctx context.Context) context.Context {
	parents := metadata.ValueFromIncomingContext(ctx, "traceparent")
	if len(parents) == 0 {
		return ctx
	}
	came := propagation.MapCarrier{"traceparent": parents[0]}
	if states := metadata.ValueFromIncomingContext(ctx, "tracestate"); len(states) > 0 {
		came["tracestate"] = states[0]
	}
	return propagation.TraceContext{}.Extract(ctx, came)
}
