package oip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/secure"
)

// What servers of the protocol have in common, whatever their paths: Authorized,
// ReadHTTP, WriteAnswer, WriteHTTP and WriteError.

// Authorized answers requests by next whose callers the guard lets in. owner is who
// asks, for the error.
func Authorized(g secure.Guard, owner string, next http.HandlerFunc) http.HandlerFunc {
	return AuthorizedFor(g, nil, owner, next)
}

// AuthorizedFor is Authorized where the scope that named tokens need depends on the
// request; nil asks for none.
func AuthorizedFor(g secure.Guard, scope func(*http.Request) secure.Scope, owner string, next http.HandlerFunc) http.HandlerFunc {
	if g.Open() {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		g := g
		if scope != nil {
			g = g.For(scope(r))
		}
		if !g.Admits(r.Header["Authorization"], r.TLS) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			WriteError(w, &statusError{http.StatusUnauthorized, wire.Errorf(wire.CodeInvalid, "", "%s", g.Refusal(owner))})
			return
		}
		listen.CallerOf(r).Place.Prove()
		if who := g.Tenant(r.Header["Authorization"]); who != nil {
			r = r.WithContext(wire.WithTenant(r.Context(), who))
		}
		next(w, r)
	}
}

// statusError is an error whose status does not follow from its code.
type statusError struct {
	status int
	typed  *wire.Error
}

func (e *statusError) Error() string { return e.typed.Error() }
func (e *statusError) Unwrap() error { return e.typed }

func tooLarge(format string, args ...any) error {
	return &statusError{http.StatusRequestEntityTooLarge, wire.Errorf(wire.CodeInvalid, "", format, args...)}
}

// Traced is the context of a request, with the W3C trace context that came with it.
func Traced(r *http.Request) context.Context {
	if len(r.Header["Traceparent"]) == 0 {
		return r.Context()
	}
	return propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
}

// Bounds are what a server grants the body of a request.
type Bounds struct {
	Most int64 // bytes

	// Grow is asked before memory for so many bytes more is used; its error ends the
	// request. nil grants everything.
	Grow func(n int64) error

	Regions *CallerRegions // where tensors may lie; nil for none
	Frame   wire.Frame     // names the stream, and its kind, of requests that name none
}

// ReadHTTP reads and decodes an inference request.
func ReadHTTP(w http.ResponseWriter, r *http.Request, o Bounds) (*Call, error) {
	header, err := ParseHeaderLength(r.Header.Get(HeaderLength))
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r, o)
	if err != nil {
		return nil, err
	}
	return DecodeRequestIn(body, header, o)
}

// reserved is how much memory a Content-Length alone is given; the rest follows when
// so much has arrived.
const reserved = 1 << 20

// readBody reads a body. One that announces more than is accepted, or than there is
// room for, is refused before any of it is read.
func readBody(w http.ResponseWriter, r *http.Request, o Bounds) ([]byte, error) {
	grow := o.Grow
	if grow == nil {
		grow = func(int64) error { return nil }
	}
	if r.ContentLength > o.Most {
		w.Header().Set("Connection", "close")
		return nil, tooLarge("the body has %d bytes; at most %d are accepted", r.ContentLength, o.Most)
	}
	coding, err := contentCoding(r)
	if err != nil {
		w.Header().Set("Connection", "close")
		return nil, err
	}
	size, whole := int64(512), max(r.ContentLength+1, 0) // one more, so that the end is seen without growing
	if err := grow(max(whole, size)); err != nil {
		w.Header().Set("Connection", "close")
		return nil, err
	}
	if whole > 0 {
		size = min(whole, reserved)
	}
	in := http.MaxBytesReader(w, r.Body, o.Most)
	if coding != "" {
		if err := grow(inflateMemory); err != nil {
			w.Header().Set("Connection", "close")
			return nil, err
		}
		whole, size = 0, 512
		in = &inflater{coding: coding, from: in, left: o.Most}
	}
	timer := http.NewResponseController(w)
	if timer.SetReadDeadline(time.Now().Add(listen.BodyTime)) == nil { // not every writer has one
		defer func() { _ = timer.SetReadDeadline(time.Time{}) }()
	}
	buf := make([]byte, 0, size)
	for {
		if len(buf) == cap(buf) {
			to := int64(2 * cap(buf))
			if whole > int64(cap(buf)) {
				to = whole
			} else if err := grow(to - int64(cap(buf))); err != nil {
				w.Header().Set("Connection", "close")
				return nil, err
			}
			buf = append(make([]byte, 0, to), buf...)
		}
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var over *http.MaxBytesError
		switch {
		case err == io.EOF:
			return buf, nil
		case errors.As(err, &over), errors.Is(err, errInflated):
			return nil, tooLarge("the body has more than the %d bytes that are accepted", o.Most)
		case errors.Is(err, os.ErrDeadlineExceeded):
			w.Header().Set("Connection", "close")
			return nil, &statusError{http.StatusRequestTimeout, wire.Errorf(wire.CodeDeadline, "", "the body has not arrived within %v", listen.BodyTime)}
		case errors.As(err, new(*statusError)), errors.As(err, new(*wire.Error)):
			return nil, err
		case err != nil:
			return nil, wire.Errorf(wire.CodeCanceled, "", "the body ended early: %v", err)
		}
	}
}

// WriteAnswer answers an inference request. grow is asked for the memory that the answer
// takes until it returns, see Bounds.
//
// It is compressed where the request accepts that, it is worth it, and there is memory for that.
func WriteAnswer(w http.ResponseWriter, r *http.Request, call *Call, answer *wire.InferResponse, grow func(n int64) error) {
	answer, err := Classify(answer, call.Classes, grow)
	if err != nil {
		WriteError(w, err)
		return
	}
	if err = call.put(answer); err != nil {
		WriteError(w, err)
		return
	}
	binary := func(output string) bool { return call.places[output] == nil && call.AsBinary(output) }
	body, header, err := encodeResponse(answer, binary, call.places)
	if err == nil && grow != nil {
		err = grow(int64(cap(body)))
	}
	if err != nil {
		WriteError(w, err)
		return
	}
	contentType := ContentJSON
	if header >= 0 {
		contentType = ContentBinary
		w.Header().Set(HeaderLength, strconv.Itoa(header))
	}
	if coding := accepted(r, len(body)); coding != "" && (grow == nil || grow(deflateMemory) == nil) {
		compress(w, coding, contentType, body)
		return
	}
	write(w, http.StatusOK, contentType, body)
}

// WriteHTTP answers with JSON, or with the error that making it has ended with.
func WriteHTTP(w http.ResponseWriter, body []byte, err error) {
	if err != nil {
		WriteError(w, err)
		return
	}
	write(w, http.StatusOK, ContentJSON, body)
}

// WriteError answers with an error. What is no *wire.Error is an internal one.
func WriteError(w http.ResponseWriter, err error) {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	if e.Code == wire.CodeOverloaded || e.Code == wire.CodeUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	status := Status(e.Code)
	var special *statusError
	if errors.As(err, &special) {
		status = special.status
	}
	write(w, status, ContentJSON, EncodeError(e))
}

// WriteMethodNotAllowed answers a request whose path is there for other methods.
func WriteMethodNotAllowed(w http.ResponseWriter, r *http.Request, others []string) {
	WriteError(w, &statusError{http.StatusMethodNotAllowed, wire.Errorf(wire.CodeInvalid, "", "%s is not asked by %s, but by %s", r.URL.Path, r.Method, strings.Join(others, " or "))})
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(listen.AnswerTime)) // not every writer has one
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
