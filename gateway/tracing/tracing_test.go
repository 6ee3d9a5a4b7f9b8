package tracing

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/gateway/httpapi"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/placement"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/attach"
	"github.com/harpagon/harpagon/wire/oip"
)

// serve runs a pipeline of two modules, the second slow enough to be late.
func serve(t *testing.T, o gateway.Observer, slo, slow time.Duration) *gateway.Gateway {
	x, y := pipelines.Port{Name: "x", Datatype: "INT64", Shape: []int64{1}}, pipelines.Port{Name: "y", Datatype: "INT64", Shape: []int64{1}}
	d := placement.Deployment{
		Generation: 3,
		Pipeline: pipelines.Pipeline{
			Name: "pair", SLO: slo, Inputs: []pipelines.Port{x},
			Modules: []pipelines.Module{
				{Name: "first", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Port: "x"}}}},
				{Name: "second", Inputs: []pipelines.Binding{{Name: "x", From: pipelines.Ref{Module: "first", Port: "y"}}}},
			},
			Outputs: []pipelines.Output{{Name: "y", From: pipelines.Ref{Module: "second", Port: "y"}}},
		},
		Slots: []placement.Slot{{Executor: "e-1", Pipeline: "pair", Module: "first", Batch: 1}, {Executor: "e-2", Pipeline: "pair", Module: "second", Batch: 1}},
	}
	g := gateway.New(gateway.Options{Observer: o})
	t.Cleanup(func() { _ = g.Close() })
	for _, s := range d.Slots {
		near, far := attach.Pipe()
		go func() { _ = g.Attach(far) }()
		go func() {
			_ = near.Send(&attach.Message{Hello: &attach.Hello{
				Executor: s.Executor, Pipeline: "pair", Module: s.Module, Host: "here", Device: "cpu-0",
				Signature: pipelines.Signature{Inputs: []pipelines.Port{x}, Outputs: []pipelines.Port{y}},
			}})
			for {
				m, err := near.Recv()
				if err != nil || m.Batch == nil {
					_ = near.Close()
					return
				}
				if s.Module == "second" {
					time.Sleep(slow)
				}
				_ = near.Send(&attach.Message{Result: &attach.Result{ID: m.Batch.ID, Items: m.Batch.Items, Compute: slow}})
			}
		}()
	}
	require.NoError(t, g.Prepare(t.Context(), d))
	require.NoError(t, g.Install(t.Context(), d))
	return g
}

var question = wire.InferRequest{ID: "q-1", Pipeline: "pair", Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromInt64([]int64{42})}}}

// TestLateRequestFromClientToEngine sends a request over HTTP with a trace of its
// caller, and reads what a collector of OTLP receives: the request is the caller's
// child, its modules follow each other, and with the time to answer they add up to what it
// took.
func TestLateRequestFromClientToEngine(t *testing.T) {
	var mu sync.Mutex
	var spans []*otlp.Span
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m := new(collector.ExportTraceServiceRequest)
		if assert.NoError(t, proto.Unmarshal(body, m)) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range m.ResourceSpans {
				for _, s := range s.ScopeSpans {
					spans = append(spans, s.Spans...)
				}
			}
		}
	}))
	defer sink.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.URL)
	t.Setenv("OTEL_TRACES_SAMPLER", "traceidratio")
	t.Setenv("OTEL_TRACES_SAMPLER_ARG", "0") // it is kept because it is late
	traces, err := FromEnvironment(t.Context(), "v1", nil)
	require.NoError(t, err)

	g := serve(t, traces.Observer(), 300*time.Millisecond, 400*time.Millisecond)
	front := httptest.NewServer(httpapi.New(g, httpapi.Options{}))
	defer front.Close()
	callers := tracetest.NewInMemoryExporter()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(callers))
	ctx, root := tp.Tracer("caller").Start(t.Context(), "call")
	c := oip.NewClient(oip.ClientOptions{URL: front.URL, Binary: true})
	defer c.Close()
	answer, err := c.Infer(ctx, &question, "")
	require.NoError(t, err)
	require.NotNil(t, answer)
	root.End()
	require.NoError(t, traces.Shutdown(context.Background()))

	byName := map[string]*otlp.Span{}
	for _, s := range spans {
		byName[s.Name] = s
	}
	request := byName["infer pair"]
	require.NotNil(t, request)
	id, span := root.SpanContext().TraceID(), root.SpanContext().SpanID()
	assert.Equal(t, id[:], request.TraceId)
	assert.Equal(t, span[:], request.ParentSpanId)
	assert.Equal(t, otlp.Status_STATUS_CODE_ERROR, request.Status.Code)
	assert.Equal(t, "late", textOf(request, "harpagon.outcome"))
	assert.Equal(t, "q-1", textOf(request, "harpagon.request.id"))

	first, second := byName["first"], byName["second"]
	require.NotNil(t, first)
	require.NotNil(t, second)
	assert.Equal(t, request.StartTimeUnixNano, first.StartTimeUnixNano)
	assert.Equal(t, first.EndTimeUnixNano, second.StartTimeUnixNano, "steps of the critical path follow each other")
	assert.GreaterOrEqual(t, request.EndTimeUnixNano, second.EndTimeUnixNano)
	sum := number(first, "queue") + number(first, "wait") + number(first, "compute") + number(first, "transfer") +
		number(second, "queue") + number(second, "wait") + number(second, "compute") + number(second, "transfer")
	rest := float64(request.EndTimeUnixNano-second.EndTimeUnixNano) / 1e6
	assert.InDelta(t, number(request, "elapsed"), sum+rest, 0.001)

	batch := byName["batch second"]
	require.NotNil(t, batch)
	assert.NotEqual(t, request.TraceId, batch.TraceId)
	require.Len(t, second.Links, 1)
	assert.Equal(t, batch.SpanId, second.Links[0].SpanId)
	assert.Equal(t, "e-2", textOf(second, "harpagon.executor"))
	engines := 0
	for _, s := range spans {
		if s.Name == "engine" && bytes.Equal(s.ParentSpanId, second.SpanId) {
			engines++
			assert.GreaterOrEqual(t, s.StartTimeUnixNano, second.StartTimeUnixNano)
			assert.LessOrEqual(t, s.EndTimeUnixNano, second.EndTimeUnixNano)
		}
	}
	assert.Equal(t, 1, engines)
}

func textOf(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func number(s *otlp.Span, key string) float64 {
	for _, a := range s.Attributes {
		if a.Key == "harpagon."+key+"_ms" {
			return a.Value.GetDoubleValue()
		}
	}
	return 0
}

// TestSampling samples by head, and keeps what was not in time, up to a rate.
func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		name    string
		sampler sdktrace.Sampler
		kept    float64
		slo     time.Duration
		want    int // requests of 3
	}{
		{"all", nil, 0, time.Minute, 3},
		{"none", sdktrace.NeverSample(), 0, time.Minute, 0},
		{"late ones", sdktrace.NeverSample(), 1e-9, 80 * time.Millisecond, 1},
		{"no late ones either", sdktrace.NeverSample(), -1, 80 * time.Millisecond, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := tracetest.NewInMemoryExporter()
			traces := New(Options{Exporter: out, Sampler: tt.sampler, Kept: tt.kept})
			g := serve(t, traces.Observer(), tt.slo, 100*time.Millisecond)
			for range 3 {
				_, _ = g.Infer(t.Context(), &question)
			}
			require.NoError(t, traces.provider.ForceFlush(t.Context()))
			n := 0
			for _, s := range out.GetSpans() {
				if strings.HasPrefix(s.Name, "infer ") {
					n++
				}
			}
			assert.Equal(t, tt.want, n)
			require.NoError(t, traces.Shutdown(t.Context()))
		})
	}
}

// TestRefused: a refused request has a trace, too, of one span with the reason.
func TestRefused(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	traces := New(Options{Exporter: out})
	g := serve(t, traces.Observer(), time.Minute, 0)
	_, err := g.Infer(t.Context(), &wire.InferRequest{Pipeline: "pair"})
	require.Error(t, err)
	require.NoError(t, traces.provider.ForceFlush(t.Context()))
	spans := out.GetSpans()
	require.Len(t, spans, 1)
	assert.Equal(t, codes.Error, spans[0].Status.Code)
	assert.Contains(t, spans[0].Status.Description, "input")
	require.NoError(t, traces.Shutdown(t.Context()))
}

// hanging never answers.
type hanging struct{ sdktrace.SpanExporter }

func (hanging) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}
func (hanging) Shutdown(context.Context) error { return nil }

// TestHangingEndpoint serves as without tracing, however many spans wait.
func TestHangingEndpoint(t *testing.T) {
	traces := New(Options{Exporter: hanging{}})
	g := serve(t, traces.Observer(), time.Minute, 0)
	for range 2000 {
		_, err := g.Infer(t.Context(), &question)
		require.NoError(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = traces.Shutdown(ctx)
}

func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		on   bool
		fail string
	}{
		{nil, false, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}, false, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, "otlp and none are known"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, "http/protobuf and grpc are known"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "sometimes"}, false, "known are always_on"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1.5"}, false, "a share from 0 to 1"},
	} {
		for _, k := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"} {
			t.Setenv(k, tt.env[k]) // restores it, too
			if tt.env[k] == "" {
				require.NoError(t, os.Unsetenv(k))
			}
		}
		traces, err := FromEnvironment(t.Context(), "", nil)
		if tt.fail != "" {
			require.ErrorContains(t, err, tt.fail)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, tt.on, traces != nil, tt.env)
		_ = traces.Shutdown(t.Context())
	}
}

// TestParentsSay keeps the whole trace of a caller that samples, and of one that does
// not only what is late.
func TestParentsSay(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	traces := New(Options{Exporter: out})
	g := serve(t, traces.Observer(), time.Minute, 0)
	for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags, Remote: true})
		_, err := g.Infer(trace.ContextWithRemoteSpanContext(t.Context(), parent), &question)
		require.NoError(t, err)
	}
	require.NoError(t, traces.provider.ForceFlush(t.Context()))
	n := 0
	for _, s := range out.GetSpans() {
		if s.SpanContext.TraceID() == (trace.TraceID{1}) {
			n++
		}
	}
	assert.Equal(t, 5, n, "one request: two modules, an engine each")
	require.NoError(t, traces.Shutdown(t.Context()))
}

// BenchmarkRequest is what traces cost a request: without a tracer, with one whose
// sampler does not take it, and with one that does.
func BenchmarkRequest(b *testing.B) {
	info := gateway.TraceInfo{Context: b.Context(), RequestInfo: gateway.RequestInfo{Pipeline: "pair"}, Arrived: time.Now(), Ended: time.Now()}
	for _, c := range []struct {
		name    string
		sampler sdktrace.Sampler
	}{{"none", nil}, {"not sampled", sdktrace.NeverSample()}, {"sampled", sdktrace.AlwaysSample()}} {
		b.Run(c.name, func(b *testing.B) {
			var traces *Tracer
			if c.sampler != nil {
				traces = New(Options{Exporter: tracetest.NewNoopExporter(), Sampler: c.sampler})
				defer traces.Shutdown(context.Background())
			}
			o := gateway.Tee(traces.Observer(), gateway.Observer{})
			b.ReportAllocs()
			for b.Loop() {
				if o.Traced != nil {
					o.Traced(info)
				}
			}
		})
	}
}
