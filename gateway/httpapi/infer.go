package httpapi

import (
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// trusted is how much memory a Content-Length alone is given; beyond it the
// buffer grows with what has arrived.
const trusted = 1 << 20

func (s *server) infer(w http.ResponseWriter, r *http.Request) {
	if s.options.Crowded != nil {
		if err := s.options.Crowded(modelName(r)); err != nil {
			fail(w, err)
			return
		}
	}
	call, err := s.call(w, r)
	if err != nil {
		fail(w, err)
		return
	}
	call.Request.Pipeline = modelName(r)
	if r.PathValue("version") != "" {
		if _, err := s.model(r); err != nil {
			fail(w, err)
			return
		}
	}
	ctx, cancel := deadlined(r.Context(), call.Timeout)
	defer cancel()
	answer, err := s.backend.Infer(ctx, &call.Request)
	if err != nil {
		fail(w, err)
		return
	}
	body, header, err := oip.EncodeResponse(answer, call.AsBinary)
	if err != nil {
		fail(w, err)
		return
	}
	if header < 0 {
		reply(w, http.StatusOK, body)
		return
	}
	h := w.Header()
	h.Set("Content-Type", oip.ContentBinary)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set(oip.HeaderLength, strconv.Itoa(header))
	_, _ = w.Write(body)
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

// call reads and decodes the body.
func (s *server) call(w http.ResponseWriter, r *http.Request) (*oip.Call, error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, &statusError{http.StatusUnsupportedMediaType, wire.Errorf(wire.CodeInvalid, "", "the body is encoded as %q; send it without compression", e)}
	}
	header, err := oip.ParseHeaderLength(r.Header.Get(oip.HeaderLength))
	if err != nil {
		return nil, err
	}
	body, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	return oip.DecodeRequest(body, header)
}

// body reads at most MaxBody bytes. A body that announces more is refused
// before any of it is read.
func (s *server) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := s.options.MaxBody
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return nil, tooLarge("the body has %d bytes; at most %d are accepted", r.ContentLength, limit)
	}
	size := int64(512)
	if r.ContentLength > 0 {
		size = min(r.ContentLength+1, trusted) // one more, so that the end is seen without growing
	}
	buf := make([]byte, 0, size)
	in := http.MaxBytesReader(w, r.Body, limit)
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
			return nil, tooLarge("the body has more than the %d bytes that are accepted", limit)
		case err != nil:
			return nil, wire.Errorf(wire.CodeCanceled, "", "the body ended early: %v", err)
		}
	}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	var special *statusError
	if errors.As(err, &special) {
		failStatus(w, special.status, special.typed)
		return
	}
	var e *wire.Error
	if !errors.As(err, &e) {
		e = wire.Errorf(wire.CodeInternal, "", "%v", err)
	}
	if e.Code == wire.CodeOverloaded {
		w.Header().Set("Retry-After", "1")
	}
	failStatus(w, oip.Status(e.Code), e)
}

func failStatus(w http.ResponseWriter, status int, e *wire.Error) {
	reply(w, status, oip.EncodeError(e))
}
