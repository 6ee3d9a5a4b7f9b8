package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// backend answers with its inputs, or by infer where it is set.
type backend struct {
	infer func(context.Context, *wire.InferRequest) (*wire.InferResponse, error)
	ready bool
}

func (b *backend) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	if b.infer != nil {
		return b.infer(ctx, q)
	}
	return &wire.InferResponse{ID: q.ID, Pipeline: q.Pipeline, Generation: 4, Outputs: q.Inputs, Elapsed: 9,
		Stages: []wire.Stage{{Module: "m", Items: 1, Critical: true, Compute: 9}}}, nil
}

func (b *backend) Metadata(_ context.Context, name string) (*wire.Metadata, error) {
	if name != "p" {
		return nil, wire.Errorf(wire.CodeNotFound, "", "pipeline %q is not served here", name)
	}
	return &wire.Metadata{Pipeline: "p", Generation: 4, Ready: b.ready, Reason: "no executor", SLO: time.Second,
		Inputs: []pipelines.Port{{Name: "x", Datatype: "FP32", Shape: []int64{2}}}}, nil
}

func (b *backend) Pipelines(context.Context) ([]string, error) { return []string{"p"}, nil }

func get(t *testing.T, h http.Handler, path string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func post(h http.Handler, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestReadOnlyPages(t *testing.T) {
	b := &backend{ready: true}
	h := New(b, Options{Version: "1.2", Metrics: http.NotFoundHandler()})
	for _, c := range []struct {
		path string
		code int
		says string
	}{
		{"/v2", 200, `"version":"1.2"`},
		{"/v2/health/live", 200, "true"},
		{"/v2/health/ready", 200, "true"},
		{"/v2/models", 200, `["p"]`},
		{"/v2/models/p", 200, `"datatype":"FP32","shape":[2]`},
		{"/v2/models/p/versions/4", 200, `"versions":["4"]`},
		{"/v2/models/p/versions/3", 404, "served in version 4, not 3"},
		{"/v2/models/p/ready", 200, "true"},
		{"/v2/models/p/versions/4/ready", 200, "true"},
		{"/v2/models/q", 404, "not_found"},
		{"/v2/models/q/ready", 404, "not_found"},
		{"/v2/nothing", 404, ""},
	} {
		code, body := get(t, h, c.path)
		require.Equal(t, c.code, code, c.path)
		require.Contains(t, body, c.says, c.path)
	}
	b.ready = false
	code, _ := get(t, h, "/v2/health/ready")
	require.Equal(t, 200, code, "a service that lacks an executor does not make the gateway unready for the others")
	code, body := get(t, h, "/v2/models/p/ready")
	require.Equal(t, 503, code)
	require.Contains(t, body, "no executor")
}

// served serves h as the gateway does until the test ends, and reports where.
func served(t testing.TB, h http.Handler) (url string) {
	l, err := listen.HTTP("127.0.0.1:0", secure.Credentials{}, 0)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, h) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return "http://" + l.Addr().String()
}

const simple = `{"id":"7","inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2]}]}`

func TestInferJSON(t *testing.T) {
	w := post(New(&backend{}, Options{}), "/v2/models/p/infer", simple)
	require.Equal(t, 200, w.Code)
	require.Empty(t, w.Header().Get(oip.HeaderLength))
	var out map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &out))
	require.Equal(t, "p", out["model_name"])
	require.Equal(t, "4", out["model_version"])
	require.Equal(t, "7", out["id"])
	require.Equal(t, []any{1.0, 2.0}, out["outputs"].([]any)[0].(map[string]any)["data"])
	require.Contains(t, out["parameters"].(map[string]any)["stages"], `"compute_ns":9`)
}

func TestInferBinary(t *testing.T) {
	q := &wire.InferRequest{Inputs: []wire.NamedTensor{{Name: "x", Tensor: wire.FromFloat32([]float32{1, 2}, 2)}}}
	body, header, err := oip.EncodeRequest(q, time.Second)
	require.NoError(t, err)
	h := New(&backend{infer: func(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		_, ok := ctx.Deadline()
		require.True(t, ok, "the parameter timeout is a deadline")
		return &wire.InferResponse{Outputs: q.Inputs}, nil
	}}, Options{})
	n, _ := json.Marshal(header)
	w := post(h, "/v2/models/p/infer", string(body), oip.HeaderLength, string(n))
	require.Equal(t, 200, w.Code)
	require.Equal(t, oip.ContentBinary, w.Header().Get("Content-Type"))
	header, err = oip.ParseHeaderLength(w.Header().Get(oip.HeaderLength))
	require.NoError(t, err)
	r, err := oip.DecodeResponse(w.Body.Bytes(), header)
	require.NoError(t, err)
	require.Equal(t, q.Inputs[0].Data, r.Outputs[0].Data)
}

func TestBadRequests(t *testing.T) {
	h := New(&backend{}, Options{MaxBody: 1 << 10})
	for _, c := range []struct {
		name, path, body string
		header           []string
		code             int
		says             string
	}{
		{"not JSON", "/v2/models/p/infer", "{", nil, 400, "not valid JSON"},
		{"header", "/v2/models/p/infer", simple, []string{oip.HeaderLength, "x"}, 400, oip.HeaderLength},
		{"gzip", "/v2/models/p/infer", simple, []string{"Content-Encoding", "gzip"}, 400, "is not gzip"},
		{"another coding", "/v2/models/p/infer", simple, []string{"Content-Encoding", "br"}, 415, "gzip, deflate or without compression"},
		{"parameter", "/v2/models/p/infer", `{"parameters":{"priority":5},` + simple[1:], nil, 400, "priority"},
		{"timestamp", "/v2/models/p/infer", `{"parameters":{"sequence_id":"a","timestamp":-5},` + simple[1:], nil, 400, "timestamp"},
		{"input's", "/v2/models/p/infer", `{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,2],"parameters":{"scale":2}}]}`, nil, 400, "scale"},
		{"output's", "/v2/models/p/infer", simple[:len(simple)-1] + `,"outputs":[{"name":"x","parameters":{"shared_memory_region":"r"}}]}`, nil, 400, "shared_memory_region"},
		{"classes", "/v2/models/p/infer", simple[:len(simple)-1] + `,"outputs":[{"name":"x","parameters":{"classification":-1}}]}`, nil, 400, "how many classes"},
		{"nowhere", "/v2/nothing", simple, nil, 404, "no path of the protocol"},
		{"method", "/v2/models/p", simple, nil, 405, "but by GET"},
		{"load", "/v2/repository/models/p/load", "", nil, 400, "harpagon apply"},
		{"unload", "/v2/repository/models/p/unload", "{}", nil, 400, "harpagon down p"},
		{"large", "/v2/models/p/infer", strings.Repeat(" ", 1<<10+1), nil, 413, "at most 1024"},
		{"version", "/v2/models/p/versions/9/infer", simple, nil, 404, "version 4, not 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := post(h, c.path, c.body, c.header...)
			require.Equal(t, c.code, w.Code)
			require.Contains(t, w.Body.String(), c.says)
			var e struct{ Error, Code string }
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e))
			require.NotEmpty(t, e.Error)
			require.NotEmpty(t, e.Code)
		})
	}
}

func TestStatusOfErrors(t *testing.T) {
	for code, status := range map[wire.Code]int{
		wire.CodeDeadline: 504, wire.CodeOverloaded: 429, wire.CodeUnavailable: 503, wire.CodeInfeasible: 503,
		wire.CodeInvalid: 400, wire.CodeNotFound: 404, wire.CodeCanceled: 499, wire.CodeInternal: 500,
	} {
		h := New(&backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
			return nil, &wire.Error{Code: code, Stage: "m", Reason: "why"}
		}}, Options{})
		w := post(h, "/v2/models/p/infer", simple)
		require.Equal(t, status, w.Code)
		require.Contains(t, w.Body.String(), `"stage":"m"`)
		if code == wire.CodeOverloaded {
			require.NotEmpty(t, w.Header().Get("Retry-After"))
		}
	}
}

func TestToken(t *testing.T) {
	h := New(&backend{ready: true}, Options{Callers: secure.Credentials{Token: "secret"}.Guard()})
	code, body := get(t, h, "/v2/models/p")
	require.Equal(t, 401, code)
	require.Contains(t, body, "Bearer TOKEN")
	code, _ = get(t, h, "/v2/health/live")
	require.Equal(t, 200, code, "health needs no token")
	require.Equal(t, 401, post(h, "/v2/models/p/infer", simple, "Authorization", "Bearer wrong").Code)
	require.Equal(t, 200, post(h, "/v2/models/p/infer", simple, "Authorization", "Bearer secret").Code)
}

// endless is a body that never ends and counts what was read of it.
type endless struct{ n atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.n.Add(int64(len(p)))
	return len(p), nil
}

func TestHugeBodyIsRefusedEarly(t *testing.T) {
	url := served(t, New(&backend{}, Options{}))
	before := allocated()
	const huge = 1 << 30
	body := &endless{}
	r, err := http.NewRequest(http.MethodPost, url+"/v2/models/p/infer", io.LimitReader(body, huge))
	require.NoError(t, err)
	r.ContentLength = huge
	resp, err := http.DefaultClient.Do(r)
	if err == nil { // the client may also see the connection closed under its writing
		require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		resp.Body.Close()
	}
	require.Less(t, body.n.Load(), int64(64<<20), "most of the body was never sent")
	require.Less(t, allocated()-before, uint64(32<<20))
}

func TestEndlessBodyIsRefusedAtTheLimit(t *testing.T) {
	h := New(&backend{}, Options{MaxBody: 1 << 20})
	r := httptest.NewRequest(http.MethodPost, "/v2/models/p/infer", &endless{})
	r.ContentLength = -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestHangUpCancels(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error, 1)
	url := served(t, New(&backend{infer: func(ctx context.Context, _ *wire.InferRequest) (*wire.InferResponse, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, wire.Errorf(wire.CodeCanceled, "", "gone")
	}}, Options{}))
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v2/models/p/infer", bytes.NewReader([]byte(simple)))
	require.NoError(t, err)
	go func() {
		<-begun
		cancel()
	}()
	_, err = http.DefaultClient.Do(r)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
}

// once is a listener of one connection.
type once struct {
	net.Conn
	closed chan struct{}
	given  bool
}

func (o *once) Accept() (net.Conn, error) {
	if !o.given {
		o.given = true
		return o.Conn, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

func (o *once) Close() error   { close(o.closed); return nil }
func (o *once) Addr() net.Addr { return o.Conn.LocalAddr() }

// TestSlowCallers holds that a caller who sends headers or a body byte by byte loses its
// connection after the time for them, however steadily it sends, and that one whose body is
// late gets an error that names it.
func TestSlowCallers(t *testing.T) {
	const head = "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n"
	for name, c := range map[string]struct {
		first, then, says string
		time              time.Duration
	}{
		"headers":                   {"POST /v2/models/p/infer HTTP/1.1\r\n", "A: b\r\n", "", listen.HeadTime},
		"no headers":                {"", "", "", listen.HeadTime},
		"a body":                    {head, " ", "408 Request Timeout", listen.BodyTime},
		"a body that does not come": {head, "", "408 Request Timeout", listen.BodyTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				done, ended := make(chan error, 1), make(chan struct{})
				held := gateway.NewBytes(gateway.ByteLimits{Total: 1 << 30})
				go func() {
					done <- Serve(ctx, &once{Conn: far, closed: make(chan struct{})}, New(&backend{}, Options{Bytes: held}))
				}()
				begin := time.Now()
				go func() {
					defer close(ended)
					_, err := near.Write([]byte(c.first))
					for err == nil {
						time.Sleep(100 * time.Millisecond)
						_, err = near.Write([]byte(c.then))
					}
				}()
				said, err := io.ReadAll(near)
				require.NoError(t, err)
				require.InDelta(t, c.time, time.Since(begin), float64(time.Second))
				require.Contains(t, string(said), c.says)
				_ = near.Close()
				<-ended
				cancel()
				require.NoError(t, <-done)
				require.Zero(t, held.Now())
			})
		})
	}
}

// TestBodiesAndAnswersOfAnyPathEnd holds the same of a body that is not of a request for a
// pipeline, and of an answer to one, in whichever way they come.
func TestBodiesAndAnswersOfAnyPathEnd(t *testing.T) {
	const chunked = "Host: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
	for name, c := range map[string]struct {
		send string
		time time.Duration
	}{
		"a body":            {"POST /v2/repository/index HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{", 2 * listen.HeadTime},
		"a chunked body":    {"POST /v2/repository/index HTTP/1.1\r\n" + chunked, listen.HeadTime + listen.BodyTime},
		"of no path at all": {"POST /v3 HTTP/1.1\r\n" + chunked, listen.HeadTime + listen.BodyTime},
		"an answer":         {"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n", listen.AnswerTime},
		"to another agent":  {"GET /metrics HTTP/1.0\r\n\r\n", listen.AnswerTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
				go func() {
					done <- Serve(ctx, &once{Conn: far, closed: make(chan struct{})}, New(&backend{}, Options{Metrics: page}))
				}()
				_, err := io.WriteString(near, c.send)
				require.NoError(t, err)
				time.Sleep(c.time + time.Second)
				if strings.HasPrefix(c.send, "POST") { // the refusal may wait in the pipe
					_, err = io.Copy(io.Discard, near)
				} else {
					_, err = near.Read(make([]byte, 1))
					require.ErrorIs(t, err, io.EOF)
					err = nil
				}
				require.NoError(t, err)
				_ = near.Close()
				cancel()
				require.NoError(t, <-done)
			})
		})
	}
}

// TestAnAnswerThatIsNotRead holds that a caller who does not read loses its connection.
func TestAnAnswerThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Serve(ctx, &once{Conn: far, closed: make(chan struct{})}, New(&backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
				return &wire.InferResponse{Outputs: []wire.NamedTensor{{Name: "y", Tensor: wire.FromUint8(make([]byte, 1<<20))}}}, nil
			}}, Options{}))
		}()
		_, err := fmt.Fprintf(near, "POST /v2/models/p/infer HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(simple), simple)
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		n, err := near.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Zero(t, n)
		cancel()
		require.NoError(t, <-done)
	})
}

func TestServeStopsInGoodOrder(t *testing.T) {
	l, err := listen.TCP("127.0.0.1:0", secure.Credentials{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, l, New(&backend{}, Options{})) }()
	resp, err := http.Get("http://" + l.Addr().String() + "/v2/health/live")
	require.NoError(t, err)
	resp.Body.Close()
	cancel()
	require.NoError(t, <-done)
}

// TestApplications addresses a model whose name has a slash, plain and escaped.
func TestApplications(t *testing.T) {
	asked := make(chan string, 1)
	h := New(&backend{infer: func(_ context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
		asked <- q.Pipeline
		return &wire.InferResponse{Outputs: q.Inputs}, nil
	}}, Options{})
	for _, path := range []string{"/v2/models/f/app/infer", "/v2/models/f%2Fapp/infer"} {
		require.Equal(t, 200, post(h, path, simple).Code, path)
		require.Equal(t, "f/app", <-asked)
	}
	code, body := get(t, h, "/v2/models/f/app")
	require.Equal(t, 404, code)
	require.Contains(t, body, `f/app`, "the backend receives the application's name")
}

func TestRefusesBeforeItReads(t *testing.T) {
	b := &backend{infer: func(context.Context, *wire.InferRequest) (*wire.InferResponse, error) {
		t.Error("the backend was called")
		return nil, wire.Errorf(wire.CodeInternal, "", "called")
	}}
	h := New(b, Options{RejectEarly: func(_ context.Context, name string, _ time.Time) *wire.Error {
		if name != "p" {
			return nil
		}
		return wire.Errorf(wire.CodeOverloaded, "", "no time is left")
	}})
	body := iotest.ErrReader(io.ErrUnexpectedEOF)
	r := httptest.NewRequest(http.MethodPost, "/v2/models/p/infer", body)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), "no time is left")
}
