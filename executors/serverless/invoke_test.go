package serverless

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/internal/testkit"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/scheduler/functions"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// target calls a server at the URL: 2 vCPU at 1 per second, billed by 100 ms, 0.5
// a call, one request in 100 ms on average.
func target(t *testing.T, at string, o InvokerOptions, change func(*pipelines.Provider)) *Target {
	p := pipelines.Provider{Name: "cloud", VCPUSecond: 1, Invocation: 0.5, Billing: 100 * time.Millisecond, URL: at + "/v2/models/{function}-{platform}-{size}"}
	if change != nil {
		change(&p)
	}
	if o.Sleep == nil {
		o.Sleep = func(context.Context, time.Duration) error { return nil }
	}
	i := NewInvoker(o)
	t.Cleanup(i.Close)
	d := functions.Deployment{Function: pipelines.Function{Name: "f"}, Provider: p, Plan: functions.Plan{
		Groups: []functions.Group{{Offer: functions.Offer{Platform: functions.CPU, VCPU: 2, Batch: 4, Avg: 0.1, Max: 0.2}}},
	}}
	one, err := i.Target(d, 0)
	require.NoError(t, err)
	return one
}

func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// two requests, each a vector of two.
func two() Batch {
	item := func(a, b float32) []wire.NamedTensor {
		return []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{a, b}, 2)}}
	}
	return Batch{Items: [][]wire.NamedTensor{item(1, 2), item(3, 4)}}
}

// sums answers with the sum of every request, as a good provider would.
func sums(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	header, _ := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
	call, err := oip.DecodeRequest(body, header)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rows, _ := wire.Rows(call.Request.Inputs[0].Tensor)
	var all []float32
	for _, row := range rows {
		v, _ := row.Float32s()
		all = append(all, v[0]+v[1])
	}
	out := wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "sum", Tensor: wire.FromFloat32(all, int64(len(all)))}}}
	answer, n, _ := oip.EncodeResponse(&out, call.AsBinary)
	if n >= 0 {
		w.Header().Set(oip.HeaderLength, fmt.Sprint(n))
	}
	_, _ = w.Write(answer)
}

func TestCallTakesAnswersApart(t *testing.T) {
	var path, kind atomic.Value
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path.Store(r.URL.Path)
		kind.Store(r.Header.Get("Content-Type"))
		w.Header().Set("Server-Timing", `init;dur=412.5, run;desc="the model";dur=130.2`)
		sums(w, r)
	})
	one := target(t, at, InvokerOptions{}, nil)
	for _, binary := range []bool{false, true} {
		one.binary.Store(binary)
		out := one.Call(t.Context(), two())
		require.Nil(t, out.Err)
		assert.Equal(t, "/v2/models/f-cpu-2/infer", path.Load())
		assert.Equal(t, map[bool]string{false: oip.ContentJSON, true: oip.ContentBinary}[binary], kind.Load())
		for i, want := range []float32{3, 7} {
			v, err := out.Items[i][0].Float32s()
			require.NoError(t, err)
			assert.Equal(t, []float32{want}, v)
			assert.Empty(t, out.Items[i][0].Shape, "a scalar a request")
		}
		assert.True(t, out.Ran && out.Cold && !out.Estimated)
		assert.Equal(t, 130200*time.Microsecond, out.Run)
		assert.Equal(t, 412500*time.Microsecond, out.Init)
		assert.Equal(t, 200*time.Millisecond, out.Billed, "rounded up")
		assert.InDelta(t, 0.2*2+0.5, out.Cost, 1e-9)
		assert.Equal(t, 1, out.Attempts)
	}
}

func TestFirstCallIsTheColdOneWhereNoneIsReported(t *testing.T) {
	one := target(t, serve(t, sums), InvokerOptions{}, nil)
	out := one.Call(t.Context(), two())
	assert.True(t, out.Cold && out.Estimated)
	out = one.Call(t.Context(), two())
	assert.True(t, !out.Cold && out.Estimated && out.Run > 0 && out.Cost >= 0.5)
}

// TestBadProviders answers calls in every wrong way that there is a kind for.
func TestBadProviders(t *testing.T) {
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
	}
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", n) }
	}
	output := func(shape, data string) string {
		return `{"model_name":"f","outputs":[{"name":"y","datatype":"FP32","shape":` + shape + `,"data":` + data + `}]}`
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		kind   Kind
		code   wire.Code
		ran    bool
	}{
		"garbage":          {text("<html>"), Garbage, wire.CodeInternal, true},
		"nothing":          {text(""), Garbage, wire.CodeInternal, true},
		"no outputs":       {text(`{"model_name":"f","outputs":[]}`), Garbage, wire.CodeInternal, true},
		"lying shape":      {text(output("[2,3]", "[1,2]")), Garbage, wire.CodeInternal, true},
		"one of two":       {text(output("[1]", "[1]")), Misshapen, wire.CodeInternal, true},
		"three of two":     {text(output("[3]", "[1,2,3]")), Misshapen, wire.CodeInternal, true},
		"no batch":         {text(output("[]", "[1]")), Misshapen, wire.CodeInternal, true},
		"500":              {status(500), "status 500", wire.CodeInternal, true},
		"502":              {status(502), "status 502", wire.CodeUnavailable, true},
		"400 of a batch":   {status(400), "status 400", wire.CodeInternal, true},
		"401":              {status(401), "status 401", wire.CodeInternal, false},
		"404":              {status(404), "status 404", wire.CodeInternal, false},
		"429 without wait": {status(429), Throttled, wire.CodeOverloaded, false},
		"503 without wait": {status(503), Throttled, wire.CodeUnavailable, false},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "status 307", wire.CodeInternal, false},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, Broken, wire.CodeUnavailable, true},
		"hangs up half way": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, Broken, wire.CodeUnavailable, true},
		"never": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, TimedOut, wire.CodeDeadline, true},
		"never ends": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, TimedOut, wire.CodeDeadline, true},
		"wrong header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(oip.HeaderLength, "many")
			_, _ = io.WriteString(w, output("[2]", "[1,2]"))
		}, Garbage, wire.CodeInternal, true},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			at := serve(t, func(w http.ResponseWriter, r *http.Request) { calls.Add(1); c.answer(w, r) })
			timeout := time.Minute
			if c.kind == TimedOut {
				timeout = time.Second
			}
			one := target(t, at, InvokerOptions{}, func(p *pipelines.Provider) { p.Timeout = timeout })
			out := one.Call(t.Context(), two())
			require.NotNil(t, out.Err)
			assert.Equal(t, c.kind, out.Kind)
			assert.Equal(t, c.code, out.Err.Code, "%v", out.Err)
			assert.Nil(t, out.Items)
			assert.Equal(t, 1, out.Attempts)
			assert.EqualValues(t, 1, calls.Load(), "what may have run is not sent again")
			assert.Equal(t, c.ran, out.Ran)
			assert.Equal(t, c.ran, out.Cost > 0, "what has run is billed, what has not is not")
		})
	}
}

func TestRequestsThatDoNotFitTogether(t *testing.T) {
	one := target(t, "http://127.0.0.1:1", InvokerOptions{}, nil)
	b := two()
	b.Items[1][0].Tensor = wire.FromFloat32([]float32{1, 2, 3}, 3)
	out := one.Call(t.Context(), b)
	assert.Equal(t, Unsendable, out.Kind)
	assert.ErrorIs(t, out.Err, wire.ErrInvalid)
	b.Items[1] = nil
	assert.Equal(t, Unsendable, one.Call(t.Context(), b).Kind)
}

func TestBatchOfOneIsItsCallersFault(t *testing.T) {
	one := target(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "wrong size", 400) }), InvokerOptions{}, nil)
	b := two()
	b.Items = b.Items[:1]
	out := one.Call(t.Context(), b)
	assert.ErrorIs(t, out.Err, wire.ErrInvalid)
	assert.ErrorContains(t, out.Err, "wrong size")
}

// TestThrottledCallsAreSentAgain unless they could only be late.
func TestThrottledCallsAreSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		after   string
		refuse  int64 // that many calls
		latest  time.Duration
		calls   int64
		answers bool
	}{
		"once":             {429, "1", 1, time.Minute, 2, true},
		"overloaded":       {503, "0.5", 2, 0, 3, true},
		"a date":           {503, time.Now().Add(time.Second).UTC().Format(http.TimeFormat), 1, time.Minute, 2, true},
		"for ever":         {429, "1", 99, time.Minute, 3, false},
		"would be late":    {429, "5", 1, 2 * time.Second, 1, false},
		"late by the work": {429, "1", 1, 1050 * time.Millisecond, 1, false},
		"not a number":     {429, "soon", 1, time.Minute, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			at := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) <= c.refuse {
					w.Header().Set("Retry-After", c.after)
					http.Error(w, "busy", c.status)
					return
				}
				sums(w, r)
			})
			b := two()
			if c.latest > 0 {
				b.Latest = time.Now().Add(c.latest)
			}
			out := target(t, at, InvokerOptions{}, nil).Call(t.Context(), b)
			assert.Equal(t, c.calls, calls.Load())
			assert.EqualValues(t, c.calls, out.Attempts)
			assert.Equal(t, c.answers, out.Err == nil)
			assert.Equal(t, c.answers, out.Ran)
			if !c.answers {
				assert.Equal(t, Throttled, out.Kind)
				assert.Zero(t, out.Cost)
			}
		})
	}
}

func TestRefusedConnectionsAreTriedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	var naps []time.Duration
	var s *http.Server
	nap := func(_ context.Context, d time.Duration) error {
		if naps = append(naps, d); len(naps) == 2 {
			l, err := net.Listen("tcp", address)
			require.NoError(t, err)
			s = &http.Server{Handler: http.HandlerFunc(sums)}
			go func() { _ = s.Serve(l) }()
		}
		return nil
	}
	out := target(t, "http://"+address, InvokerOptions{Sleep: nap}, nil).Call(t.Context(), two())
	require.Nil(t, out.Err)
	defer s.Close()
	assert.Equal(t, 3, out.Attempts)
	assert.Equal(t, []time.Duration{backoff, 2 * backoff}, naps)

	never := target(t, "http://127.0.0.1:1", InvokerOptions{}, func(p *pipelines.Provider) { p.Attempts = 2 }).Call(t.Context(), two())
	assert.Equal(t, Unreachable, never.Kind)
	assert.Equal(t, 2, never.Attempts)
	assert.False(t, never.Ran)
	assert.ErrorIs(t, never.Err, wire.ErrUnavailable)
}

func TestStoppedCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	at := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	out := target(t, at, InvokerOptions{}, nil).Call(ctx, two())
	assert.Equal(t, Stopped, out.Kind)
	assert.True(t, out.Ran)
}

func TestToken(t *testing.T) {
	var said atomic.Value
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		said.Store(r.Header.Get("Authorization"))
		sums(w, r)
	})
	env := map[string]string{"CLOUD_TOKEN": "secret"}
	one := target(t, at, InvokerOptions{Getenv: func(n string) string { return env[n] }}, func(p *pipelines.Provider) { p.TokenVariable = "CLOUD_TOKEN" })
	require.Nil(t, one.Call(t.Context(), two()).Err)
	assert.Equal(t, "Bearer secret", said.Load())

	d := functions.Deployment{Provider: one.provider, Plan: functions.Plan{Groups: []functions.Group{{}}}}
	d.Provider.TokenVariable = "OTHER"
	_, err := one.invoker.Target(d, 0)
	assert.ErrorContains(t, err, "set the environment variable OTHER")
	env["OTHER"] = "a\nb"
	_, err = one.invoker.Target(d, 0)
	assert.ErrorContains(t, err, "line break")
	d.Provider.URL = ""
	_, err = one.invoker.Target(d, 0)
	assert.ErrorContains(t, err, "has no url")
}

// TestProvidersThatAreNotAllowed holds that a token goes to no host that the operator has not
// named, whatever is declared.
func TestProvidersThatAreNotAllowed(t *testing.T) {
	i := NewInvoker(InvokerOptions{Allow: []string{"cloud.example", "127.0.0.1:9000"}, Getenv: func(string) string { return "secret" }})
	for at, allowed := range map[string]bool{
		"https://cloud.example/f/{function}": true, "http://cloud.example:99/{function}": true, "http://127.0.0.1:9000/{function}": true,
		"http://127.0.0.1:9001/{function}": false, "https://evil.cloud.example/{function}": false,
	} {
		d := functions.Deployment{Provider: pipelines.Provider{Name: "p", URL: at, TokenVariable: "T"}, Plan: functions.Plan{Groups: []functions.Group{{}}}}
		_, err := i.Target(d, 0)
		if allowed {
			assert.NoError(t, err, at)
		} else {
			assert.ErrorContains(t, err, "does not allow", at)
		}
	}
}

func TestDescribe(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v2":
			_, _ = io.WriteString(w, `{"name":"s","extensions":["binary_tensor_data"]}`)
		case "/v2/models/f-cpu-2":
			_, _ = io.WriteString(w, `{"name":"f","inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1]}]}`)
		default:
			http.NotFound(w, r)
		}
	})
	one := target(t, at, InvokerOptions{}, nil)
	m, err := one.Describe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}, m.Inputs)
	assert.Equal(t, []pipelines.Port{{Name: "y", Datatype: "FP32", Shape: []int64{}}}, m.Outputs)
	assert.True(t, one.binary.Load())

	_, err = target(t, serve(t, http.NotFound), InvokerOptions{}, nil).Describe(t.Context())
	assert.ErrorIs(t, err, ErrUnknown)
	_, err = target(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), InvokerOptions{}, nil).Describe(t.Context())
	assert.ErrorIs(t, err, ErrUnknown)
	_, err = target(t, "http://127.0.0.1:1", InvokerOptions{}, nil).Describe(t.Context())
	assert.Error(t, err)
	assert.NotErrorIs(t, err, ErrUnknown)
}

func FuzzServerTiming(f *testing.F) {
	f.Add(`init;dur=1.5, run;desc="a";dur=2`)
	f.Add(`;;,=;dur`)
	f.Fuzz(func(t *testing.T, s string) {
		defer testkit.WatchStalls(t, len(s))()
		all, _ := serverTiming(http.Header{"Server-Timing": {s}})
		for _, d := range all {
			if d < 0 {
				t.Fatal(d)
			}
		}
	})
}

func ExampleTarget_Call() {
	s := httptest.NewServer(http.HandlerFunc(sums))
	defer s.Close()
	invoker := NewInvoker(InvokerOptions{})
	defer invoker.Close()
	d := functions.Deployment{
		Function: pipelines.Function{Name: "f"}, Provider: pipelines.Provider{Name: "cloud", URL: s.URL + "/v2/models/{function}-{platform}-{size}"},
		Plan: functions.Plan{Groups: []functions.Group{{Offer: functions.Offer{Platform: functions.CPU, VCPU: 1, Batch: 2}}}},
	}
	one, err := invoker.Target(d, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	out := one.Call(context.Background(), two())
	for _, answer := range out.Items {
		v, _ := answer[0].Float32s()
		fmt.Println(answer[0].Name, v)
	}
	// Output:
	// sum [3]
	// sum [7]
}
