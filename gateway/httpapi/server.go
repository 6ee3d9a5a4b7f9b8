package httpapi

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// DefaultMaxBody is the largest body of an inference request in bytes.
const DefaultMaxBody = 64 << 20

// Options configures a handler. The zero value is good on the loopback
// interface.
type Options struct {
	Callers secure.Guard // who may call; the zero one admits everybody
	MaxBody int64        // bytes of a request; 0 means DefaultMaxBody
	Metrics http.Handler // for /metrics; nil leaves it out
	Version string       // of the program, for the server metadata

	// RejectEarly reports why a request to a pipeline that arrived then would be refused now,
	// before its body is read; nil where it would not. A zero time means now. A nil function
	// admits every request.
	RejectEarly func(ctx context.Context, pipeline string, arrived time.Time) *wire.Error

	// Bytes bounds the memory of requests under way; nil bounds nothing.
	Bytes *gateway.Bytes

	// Regions is the memory that callers of this machine may share; nil turns sharing off.
	Regions *oip.Regions

	// Statistics reports what was seen of a pipeline; nil leaves statistics out.
	Statistics func(pipeline string) gateway.PipelineStatistics
}

// server is the handler.
type server struct {
	backend wire.Backend
	options Options
}

// New makes the handler of the protocol.
func New(b wire.Backend, o Options) http.Handler {
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	s := &server{backend: b, options: o}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/health/live", s.live)
	mux.HandleFunc("GET /v2/health/ready", s.ready)
	mux.HandleFunc("GET /v2", oip.Authorized(o.Callers, "this gateway", s.about)) // any token will do
	mux.HandleFunc("GET /v2/models", s.guard(s.list))
	for _, model := range []string{"/v2/models/{name}", "/v2/models/{name}/versions/{version}"} {
		mux.HandleFunc("GET "+model, s.guardModel(s.metadata))
		mux.HandleFunc("GET "+model+"/ready", s.guardModel(s.modelReady))
		mux.HandleFunc("POST "+model+"/infer", s.guardModel(s.infer))
		mux.HandleFunc("GET "+model+"/stream", s.guardModel(s.stream))
	}
	// An application of a function is a model, too; its name has a slash, which
	// clients may write as it is or, as for any other path, as %2F.
	mux.HandleFunc("GET /v2/models/{name}/{application}", s.guardModel(s.metadata))
	mux.HandleFunc("POST /v2/models/{name}/{application}/infer", s.guardModel(s.infer))
	s.extend(mux)
	mux.HandleFunc("/", nowhere(mux))
	if o.Metrics != nil {
		mux.HandleFunc("GET /metrics", s.guard(Counted(o.Bytes, o.Metrics).ServeHTTP))
	}
	return mux
}

// guard requires a token that may read.
func (s *server) guard(next http.HandlerFunc) http.HandlerFunc {
	return oip.Authorized(s.options.Callers.For(secure.Read), "this gateway", next)
}

// guardModel requires a token that may send requests to the model.
func (s *server) guardModel(next http.HandlerFunc) http.HandlerFunc {
	scope := func(r *http.Request) secure.Scope { return secure.InferAt(r.PathValue("name")) }
	return oip.AuthorizedFor(s.options.Callers, scope, "this gateway", next)
}

func (s *server) live(w http.ResponseWriter, _ *http.Request) {
	oip.WriteHTTP(w, []byte(`{"live":true}`), nil)
}

// readier is a backend that may not be ready whatever its pipelines are.
type readier interface{ Ready() error }

// ready is true when the gateway has received all services, ready or not: one that lacks an
// executor must not take all gateways away from the others. Each has a readiness of its own.
func (s *server) ready(w http.ResponseWriter, _ *http.Request) {
	if b, ok := s.backend.(readier); ok {
		if err := b.Ready(); err != nil {
			oip.WriteError(w, err)
			return
		}
	}
	oip.WriteHTTP(w, []byte(`{"ready":true}`), nil)
}

func unready(w http.ResponseWriter, m *wire.Metadata) {
	oip.WriteError(w, wire.Errorf(wire.CodeUnavailable, "", "pipeline %q is not ready: %s", m.Pipeline, m.Reason))
}

func (s *server) about(w http.ResponseWriter, _ *http.Request) {
	version := s.options.Version
	if version == "" {
		version = "dev"
	}
	extensions := `"binary_tensor_data","classification","model_configuration","model_repository"`
	if s.options.Statistics != nil {
		extensions += `,"statistics"`
	}
	if s.options.Regions != nil {
		extensions += `,"` + oip.ExtensionSharedMemory + `"`
	}
	oip.WriteHTTP(w, []byte(`{"name":"harpagon","version":`+strconv.Quote(version)+`,"extensions":[`+extensions+`]}`), nil)
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	names, err := s.backend.Pipelines(r.Context())
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	body, err := oip.EncodeList(names)
	oip.WriteHTTP(w, body, err)
}

func (s *server) metadata(w http.ResponseWriter, r *http.Request) {
	m, err := s.model(r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	body, err := oip.EncodeMetadata(m)
	oip.WriteHTTP(w, body, err)
}

func (s *server) modelReady(w http.ResponseWriter, r *http.Request) {
	m, err := s.model(r)
	switch {
	case err != nil:
		oip.WriteError(w, err)
	case !m.Ready:
		unready(w, m)
	default:
		oip.WriteHTTP(w, []byte(`{"name":`+strconv.Quote(m.Pipeline)+`,"ready":true}`), nil)
	}
}

// model is the metadata of the model in the path. A version in the path must
// be the one that is served.
func (s *server) model(r *http.Request) (*wire.Metadata, error) {
	m, err := s.backend.Metadata(r.Context(), modelName(r))
	if err != nil {
		return nil, err
	}
	if v := r.PathValue("version"); v != "" && v != strconv.Itoa(m.Generation) {
		return nil, wire.Errorf(wire.CodeNotFound, "", "pipeline %q is served in version %d, not %s", m.Pipeline, m.Generation, v)
	}
	return m, nil
}

// modelName is the model in the path.
func modelName(r *http.Request) string {
	if application := r.PathValue("application"); application != "" {
		return r.PathValue("name") + "/" + application
	}
	return r.PathValue("name")
}

// deadlined shortens ctx by the request's own timeout.
func deadlined(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

func (s *server) infer(w http.ResponseWriter, r *http.Request) {
	ctx, caller := oip.Traced(r), listen.CallerOf(r)
	if r.ProtoMajor == 2 { // the time to read an answer begins with that
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	if s.options.RejectEarly != nil {
		if err := s.options.RejectEarly(ctx, modelName(r), caller.Arrived(r)); err != nil {
			oip.WriteError(w, err)
			return
		}
	}
	held := s.options.Bytes.Begin(modelName(r))
	defer held.Release()
	call, err := oip.ReadHTTP(w, r, oip.Bounds{Most: s.options.MaxBody, Grow: held.Grow, Regions: s.regionsOf(r)})
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	call.Request.Pipeline, call.Request.Arrived = modelName(r), caller.Arrived(r)
	call.Request.Textual = call.AsText
	if r.PathValue("version") != "" {
		if _, err := s.model(r); err != nil {
			oip.WriteError(w, err)
			return
		}
	}
	ctx, cancel := deadlined(ctx, call.Timeout)
	defer cancel()
	caller.Begin(r, cancel)
	answer, err := s.backend.Infer(ctx, &call.Request)
	caller.End(r)
	if err != nil {
		oip.WriteError(w, err)
		return
	}
	oip.WriteAnswer(w, r, call, answer, held.Grow)
}

// shutdownTime is what requests under way get when the server stops. The other limits are
// those of all ports, see listen.Server.
const shutdownTime = 10 * time.Second

// Serve serves until ctx ends; then requests under way may finish for a while.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	base := context.WithValue(context.WithoutCancel(ctx), serving{}, ctx)
	s := listen.Server(h)
	s.BaseContext = func(net.Listener) context.Context { return base }
	over := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(base, shutdownTime)
		defer cancel()
		err := s.Shutdown(grace)
		if err != nil {
			_ = s.Close() // which ends the requests, too
		}
		over <- err
	})
	err := s.Serve(l)
	if stop() {
		return err
	}
	return <-over
}

// Counted has the answers of a handler count until they are written, as those to requests
// do: one is made whole, with nothing else held, before any of it is sent. What a handler
// flushes is sent as it comes, and does not count.
func Counted(b *gateway.Bytes, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		whole := &wholeWriter{ResponseWriter: w}
		h.ServeHTTP(whole, r)
		if whole.begun {
			return
		}
		held := b.Begin("")
		defer held.Release()
		if err := held.Grow(int64(whole.held.Cap())); err != nil {
			oip.WriteError(w, err)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(listen.AnswerTime)) // not every writer has one
		w.Header().Set("Content-Length", strconv.Itoa(whole.held.Len()))
		whole.begin()
	})
}

// wholeWriter holds an answer until it is whole.
type wholeWriter struct {
	http.ResponseWriter
	status int
	held   bytes.Buffer
	begun  bool // what is written goes on at once
}

// WriteHeader implements http.ResponseWriter.
func (w *wholeWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *wholeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.begun {
		return w.ResponseWriter.Write(p)
	}
	return w.held.Write(p)
}

// FlushError is for http.ResponseController.
func (w *wholeWriter) FlushError() error {
	w.WriteHeader(http.StatusOK)
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (w *wholeWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *wholeWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	_, _ = w.ResponseWriter.Write(w.held.Bytes())
}
