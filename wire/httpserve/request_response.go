package httpserve

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/harpagon/harpagon/wire/listen"
)

// parser reads the head of a request.
type parser struct {
	text bytes.Reader
	in   *bufio.Reader
}

var parsers = sync.Pool{New: func() any { return &parser{in: bufio.NewReaderSize(nil, mostHead)} }}

// parse reads the head of a request that is plain; nil where it is not, or
// where the request ends before the head does. It has no body yet.
func parse(head []byte) *http.Request {
	p := parsers.Get().(*parser)
	defer func() {
		p.text.Reset(nil)
		parsers.Put(p)
	}()
	p.text.Reset(head)
	p.in.Reset(&p.text)
	r, err := http.ReadRequest(p.in)
	if err != nil || p.in.Buffered() > 0 || p.text.Len() > 0 || !plain(r) {
		return nil
	}
	return r
}

// plain reports whether a request needs nothing that is net/http's alone, and nothing of it
// is for net/http to refuse.
func plain(r *http.Request) bool {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodPost,
		r.ProtoMajor != 1 || r.ProtoMinor != 1,
		r.URL.Host != "", r.Host == "" || !httpguts.ValidHostHeader(r.Host),
		len(r.TransferEncoding) > 0 || r.ContentLength < 0 || r.Close:
		return false
	}
	for name, values := range r.Header {
		switch name {
		case "Expect", "Upgrade", "Trailer", "Te":
			return false
		case "Connection":
			if len(values) != 1 || !strings.EqualFold(values[0], "keep-alive") {
				return false
			}
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return false
			}
		}
	}
	return true
}

// body is the body of a request.
type body struct {
	in     *bufio.Reader
	left   int64  // bytes that were not read
	whole  func() // is called when all is read
	closed bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case b.left == 0:
		return 0, io.EOF
	case int64(len(p)) > b.left:
		p = p[:b.left]
	}
	n, err := b.in.Read(p)
	b.left -= int64(n)
	switch {
	case b.left == 0:
		b.whole()
		return n, io.EOF
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer; the server reads the rest.
func (b *body) Close() error {
	b.closed = true
	return nil
}

// mostHeld is how much of an answer without a Content-Length is held back to learn it.
const mostHeld = 2 << 10

// writer writes an answer: with a Content-Length where the handler says one or the
// answer is short, else in chunks.
type writer struct {
	c      *conn
	body   *body // of the request
	header http.Header
	status int // 0 until it is given

	held   []byte // of the answer, before it has begun
	holds  bool   // the handler had said no length when it began to write
	begun  bool
	chunks io.WriteCloser // nil where the answer has a length
	left   int64          // of the Content-Length
	close  bool           // no request may follow
	timed  bool           // a deadline for writing it was set
	err    error
}

func newWriter(c *conn, b *body) *writer { return &writer{c: c, body: b, header: http.Header{}} }

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. What only informs (1xx) is not sent, and
// other headers are those of when the first of the answer is sent.
func (w *writer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %d", status))
	}
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.hasBody() {
		return 0, http.ErrBodyNotAllowed
	}
	if !w.begun {
		w.holds = w.holds || w.header.Get("Content-Length") == ""
		if w.holds && len(w.held)+len(p) <= mostHeld {
			w.held = append(w.held, p...)
			return len(p), nil
		}
		if w.holds {
			w.header.Del("Content-Length")
		}
		w.begin(p)
	}
	if w.write(p); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// write writes some of the answer.
func (w *writer) write(p []byte) {
	switch {
	case w.err != nil || len(p) == 0:
		return
	case w.chunks != nil:
		_, w.err = w.chunks.Write(p)
		return
	case int64(len(p)) > w.left:
		w.close, w.err = true, http.ErrContentLength
		return
	}
	w.left -= int64(len(p))
	_, w.err = w.c.out.Write(p)
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	if !w.begun {
		w.begin(nil)
	}
	if w.err == nil {
		w.err = w.c.out.Flush()
	}
	return w.err
}

// SetReadDeadline is for http.ResponseController. Nothing is waited for where all of the
// request is there.
func (w *writer) SetReadDeadline(at time.Time) error {
	if int64(w.c.in.Buffered()) >= w.body.left {
		return nil
	}
	return w.c.SetReadDeadline(at)
}

// SetWriteDeadline is for http.ResponseController. It holds for this answer only.
func (w *writer) SetWriteDeadline(at time.Time) error {
	w.timed = true
	return w.c.SetWriteDeadline(at)
}

// hasBody reports whether the status allows for one.
func (w *writer) hasBody() bool {
	return w.status != http.StatusNoContent && w.status != http.StatusNotModified
}

// begin writes the head of the answer and what was held back; next is what follows that.
func (w *writer) begin(next []byte) {
	w.begun = true
	if !w.timed {
		_ = w.c.SetWriteDeadline(time.Now().Add(listen.AnswerTime))
	}
	w.c.leave() // its client may take long to read it
	h := w.header
	h.Del("Transfer-Encoding")
	if said := h.Get("Content-Length"); said != "" {
		n, err := strconv.ParseInt(said, 10, 64)
		if err != nil || n < 0 || !w.hasBody() {
			h.Del("Content-Length")
		} else {
			w.left = n
		}
	}
	if w.hasBody() && h.Get("Content-Length") == "" {
		h.Set("Transfer-Encoding", "chunked")
		w.chunks = httputil.NewChunkedWriter(w.c.out)
	}
	if _, typed := h["Content-Type"]; !typed && len(w.held)+len(next) > 0 && h.Get("Content-Encoding") == "" {
		h.Set("Content-Type", http.DetectContentType(append(w.held, next[:min(len(next), mostHeld)]...)))
	}
	if (w.c.server.closing.Load() || w.body.left > mostDrained) && h.Get("Connection") == "" {
		h.Set("Connection", "close")
	}
	w.close = w.close || strings.EqualFold(h.Get("Connection"), "close")
	out := w.c.out.AvailableBuffer()
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(w.status), 10)
	out = append(append(append(out, ' '), http.StatusText(w.status)...), "\r\n"...)
	if _, dated := h["Date"]; !dated {
		out = append(out, "Date: "...)
		out = time.Now().UTC().AppendFormat(out, http.TimeFormat)
		out = append(out, "\r\n"...)
	}
	_, w.err = w.c.out.Write(out)
	if w.err == nil {
		w.err = h.Write(w.c.out)
	}
	if w.err == nil {
		_, w.err = w.c.out.WriteString("\r\n")
	}
	w.write(w.held)
	w.held = nil
}

// finish ends the answer, and fails where it did not reach the client's connection or is
// shorter than was said.
func (w *writer) finish() error {
	w.WriteHeader(http.StatusOK)
	if !w.begun {
		if w.hasBody() && (w.holds || w.header.Get("Content-Length") == "") {
			w.header["Content-Length"] = []string{strconv.Itoa(len(w.held))}
		}
		w.begin(nil)
	}
	if w.chunks != nil && w.err == nil {
		if w.err = w.chunks.Close(); w.err == nil {
			_, w.err = w.c.out.WriteString("\r\n") // there are no trailers
		}
	}
	if w.err == nil && w.left > 0 && w.hasBody() {
		w.err = http.ErrContentLength
	}
	if err := w.c.out.Flush(); w.err == nil {
		w.err = err
	}
	return w.err
}
