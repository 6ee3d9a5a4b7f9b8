package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/harpagon/harpagon/gateway"
)

// DefaultKept is how many requests a second are kept because they were late, dropped or
// failed, beside those that the sampler takes.
const DefaultKept = 20

// Options say what is traced.
type Options struct {
	Exporter sdktrace.SpanExporter
	Sampler  sdktrace.Sampler // by head; nil takes all, or what the caller's context says
	Kept     float64          // late, dropped and failed ones per second beside; 0 means DefaultKept, below 0 none
	Version  string           // of the program

	// Warn is told once a minute at most that spans could not be sent; nil is not told.
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

// Observer is to be told what happens; see gateway.Tee. Of a nil Tracer it is empty.
func (t *Tracer) Observer() gateway.Observer {
	if t == nil {
		return gateway.Observer{}
	}
	return gateway.Observer{Traced: t.request}
}

// keep marks contexts of requests that are sampled whatever the sampler says.
type keep struct{}

// keeping samples what keep marks, and for the rest asks.
type keeping struct{ sdktrace.Sampler }

func (k keeping) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.ParentContext.Value(keep{}) != nil {
		return sdktrace.AlwaysSample().ShouldSample(p)
	}
	return k.Sampler.ShouldSample(p)
}

// wanted says whether a request that ended so is kept whatever the sampler says.
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
