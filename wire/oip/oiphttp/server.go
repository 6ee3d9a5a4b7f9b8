package oiphttp

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
	"github.com/harpagon/harpagon/wire/secure"
)

// What servers of the protocol have in common, whatever their paths: Authorized,
// Read, WriteAnswer, Write and Fail.

// Authorized answers requests by next whose callers the guard lets in. owner is who
// asks, for the error.
func Authorized(g secure.Guard, owner string, next http.HandlerFunc) http.HandlerFunc {
	if g.Open() {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.Admits(r.Header["Authorization"], r.TLS) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			Fail(w, &statusError{http.StatusUnauthorized, wire.Errorf(wire.CodeInvalid, "", "%s", g.Refusal(owner))})
			return
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

// Read reads and decodes an inference request of at most so many bytes.
func Read(w http.ResponseWriter, r *http.Request, most int64) (*oip.Call, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, &statusError{http.StatusUnsupportedMediaType, wire.Errorf(wire.CodeInvalid, "", "the body is encoded as %q; send it without compression", e)}
	}
	header, err := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
	if err != nil {
		return nil, err
	}
	body, err := readBody(w, r, most)
	if err != nil {
		return nil, err
	}
	return oip.DecodeRequest(body, header)
}

// reserved is how much memory a Content-Length alone is given; beyond it the buffer
// grows with what has arrived.
const reserved = 1 << 20

// readBody reads a body. One that announces more than is accepted is refused before
// any of it is read.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		w.Header().Set("Connection", "close")
		return nil, tooLarge("the body has %d bytes; at most %d are accepted", r.ContentLength, most)
	}
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength+1, reserved) // one more, so that the end is seen without growing
	}
	buf := make([]byte, 0, size)
	in := http.MaxBytesReader(w, r.Body, most)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := in.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var over *http.MaxBytesError
		switch {
		case err == io.EOF:
			return buf, nil
		case errors.As(err, &over):
			return nil, tooLarge("the body has more than the %d bytes that are accepted", most)
		case err != nil:
			return nil, wire.Errorf(wire.CodeCanceled, "", "the body ended early: %v", err)
		}
	}
}

// WriteAnswer answers an inference request.
func WriteAnswer(w http.ResponseWriter, call *oip.Call, answer *wire.InferResponse) {
	body, header, err := oip.EncodeResponse(answer, call.AsBinary)
	if err != nil {
		Fail(w, err)
		return
	}
	contentType := oip.ContentJSON
	if header >= 0 {
		contentType = oip.ContentBinary
		w.Header().Set(oip.HeaderLength, strconv.Itoa(header))
	}
	write(w, http.StatusOK, contentType, body)
}

// Write answers with JSON, or with the error that making it has ended with.
func Write(w http.ResponseWriter, body []byte, err error) {
	if err != nil {
		Fail(w, err)
		return
	}
	write(w, http.StatusOK, oip.ContentJSON, body)
}

// Fail answers with an error. What is no *wire.Error is an internal one.
func Fail(w http.ResponseWriter, err error) {
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	if e.Code == wire.CodeOverloaded {
		w.Header().Set("Retry-After", "1")
	}
	status := oip.Status(e.Code)
	var special *statusError
	if errors.As(err, &special) {
		status = special.status
	}
	write(w, status, oip.ContentJSON, oip.EncodeError(e))
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
