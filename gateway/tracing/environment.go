package tracing

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// FromEnvironment makes the Tracer that the environment asks for, by OpenTelemetry's
// variables; nil where it asks for none. Traces are on when OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp is set, and off with
// OTEL_TRACES_EXPORTER=none or OTEL_SDK_DISABLED=true. OTEL_EXPORTER_OTLP_PROTOCOL is
// http/protobuf (default) or grpc; OTEL_TRACES_SAMPLER and its _ARG are those of the
// specification. The exporters read the rest: headers, time-outs, certificates.
func FromEnvironment(ctx context.Context, version string, tell func(string)) (*Tracer, error) {
	on, err := asked()
	if !on || err != nil {
		return nil, err
	}
	sampler, err := samplerOf(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	if err != nil {
		return nil, err
	}
	o := Options{Sampler: sampler, Version: version, Warn: tell}
	if o.Exporter, err = exporter(ctx); err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	if os.Getenv("OTEL_TRACES_SAMPLER") == "always_off" {
		o.Kept = -1
	}
	return New(o), nil
}

// asked says whether the environment wants traces.
func asked() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch v := os.Getenv("OTEL_TRACES_EXPORTER"); v {
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "", nil
	case "none":
		return false, nil
	case "otlp":
		return true, nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; otlp and none are known", v)
	}
}

func exporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	v := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if v == "" {
		v = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	switch v {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	}
	return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; http/protobuf and grpc are known", v)
}

// samplerOf is a sampler by its name in the specification.
func samplerOf(name, arg string) (sdktrace.Sampler, error) {
	share := 1.0
	if arg != "" && strings.HasSuffix(name, "traceidratio") {
		var err error
		if share, err = strconv.ParseFloat(arg, 64); err != nil || share < 0 || share > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q; a share from 0 to 1 is wanted", arg)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share)), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(share), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER is %q; known are always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off and parentbased_traceidratio", name)
}
