package tracing

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines/quantity"
)

// DefaultKept is how many requests a second are kept because they were late, dropped or
// failed, beside those that the sampler takes.
const DefaultKept = 20

// Options configure what is traced.
type Options struct {
	Exporter sdktrace.SpanExporter
	Sampler  sdktrace.Sampler // by head; nil takes all, or what the caller's context sampled
	Kept     float64          // late, dropped and failed ones per second beside; 0 means DefaultKept, below 0 none
	Version  string           // of the program

	// Warn is called at most once a minute when spans could not be sent; may be nil.
	Warn func(string)
}

// Tracer writes traces. Shut it down in the end.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	kept     *rate.Limiter
	batches  batches
}

// New makes a Tracer. Spans are sent in the background; when an endpoint hangs they are
// dropped, and requests go on.
func New(o Options) *Tracer {
	if o.Kept == 0 {
		o.Kept = DefaultKept
	}
	if o.Sampler == nil {
		o.Sampler = sdktrace.ParentBased(sdktrace.AlwaysSample())
	}
	about := resource.NewSchemaless(attribute.String("service.name", "harpagon"), attribute.String("service.version", o.Version))
	if named, err := resource.Merge(about, resource.Environment()); err == nil {
		about = named
	}
	p := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&quiet{SpanExporter: o.Exporter, tell: o.Warn}),
		sdktrace.WithSampler(keeping{o.Sampler}),
		sdktrace.WithResource(about),
	)
	burst := 0
	if o.Kept > 0 {
		burst = int(o.Kept) + 1
	}
	return &Tracer{
		provider: p, tracer: p.Tracer("github.com/harpagon/harpagon/gateway", trace.WithInstrumentationVersion(o.Version)),
		kept: rate.NewLimiter(rate.Limit(max(o.Kept, 0)), burst),
	}
}

// Shutdown sends what is left, until ctx ends.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Observer feeds the Tracer; see gateway.Tee. Of a nil Tracer it is empty.
func (t *Tracer) Observer() gateway.Observer {
	if t == nil {
		return gateway.Observer{}
	}
	return gateway.Observer{Traced: t.request}
}

// keep marks contexts of requests that are sampled whatever the sampler decides.
type keep struct{}

// keeping samples what keep marks, and leaves the rest to the Sampler.
type keeping struct{ sdktrace.Sampler }

func (k keeping) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.ParentContext.Value(keep{}) != nil {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return k.Sampler.ShouldSample(p)
}

// wanted reports whether a request that ended so is kept whatever the sampler decides.
func (t *Tracer) wanted(o gateway.Outcome) bool {
	switch o {
	case gateway.Late, gateway.Dropped, gateway.Failed:
		return t.kept.Allow()
	}
	return false
}

func ms(key string, d time.Duration) attribute.KeyValue {
	return attribute.Float64("harpagon."+key+"_ms", float64(d)/float64(time.Millisecond))
}

// FromEnvironment makes the Tracer that OpenTelemetry's environment variables describe; nil
// where they turn tracing off. Traces are on when OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp is set, and off with
// OTEL_TRACES_EXPORTER=none or OTEL_SDK_DISABLED=true. OTEL_EXPORTER_OTLP_PROTOCOL is
// http/protobuf (default) or grpc; OTEL_TRACES_SAMPLER and its _ARG are those of the
// specification. The exporters read the rest: headers, time-outs, certificates.
//
// OpenTelemetry's autoexport, which chooses the exporter by the same variables, would save 20 lines
// here and bring ten modules: exporters of logs and metrics, to consoles and for Prometheus. It has
// no samplers.
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

// asked reports whether the environment wants traces.
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

// again is the least time between two warnings that spans cannot be sent.
const again = time.Minute

// quiet reports failures now and then, instead of at each.
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
