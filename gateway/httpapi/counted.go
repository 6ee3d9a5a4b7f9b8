package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/gateway"
	"github.com/harpagon/harpagon/wire/listen"
	"github.com/harpagon/harpagon/wire/oip"
)

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
