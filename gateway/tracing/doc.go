// Package tracing sends OpenTelemetry traces of what a gateway answers, over OTLP. It
// is a package of its own so that neither the gateway nor a client carries an exporter.
//
//	t, err := tracing.FromEnvironment(ctx, version, tell)   // nil where tracing is off
//	g := gateway.New(gateway.Options{Observer: t.Observer()})
//	defer t.Shutdown(ctx)
//
// A trace is written when its request is over, from the times that the gateway keeps
// anyway. So a request that is not sampled costs one decision, and whether a request was
// late is known when it is decided: late, dropped and failed requests are kept whatever the
// sampler decides, up to a rate (Options.Kept).
//
// # Spans
//
//	infer NAME          the request, from its arrival at the machine to its answer; child
//	                    of the W3C trace context that came over HTTP or gRPC
//	  MODULE            one run of a module for it, from the end of what it waited for to
//	                    the return of its outputs; those on the critical path follow each
//	                    other without a gap and, with the time to answer, add up to the whole
//	    engine          the time in the engine; where within the round trip is
//	                    not known, it is drawn in the middle
//	batch MODULE        what ran together, a trace of its own; modules and engines link to it
package tracing
