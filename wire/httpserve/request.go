package httpserve

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"
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

// plain says whether a request needs nothing that is net/http's alone, and nothing of it
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
