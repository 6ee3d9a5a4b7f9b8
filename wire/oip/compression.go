package oip

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/harpagon/harpagon/wire/listen"
)

// Content codings of bodies. Deflate is the format of zlib, as HTTP has it.
const (
	codingGzip    = "gzip"
	codingDeflate = "deflate"
	identity      = "identity" // none
)

// What compressing and its opposite take beside the bodies, in bytes.
const (
	inflateMemory = 64 << 10
	deflateMemory = 1 << 20
)

// worthwhile is the least length of an answer that is compressed.
const worthwhile = 1 << 10

// errInflated ends a body that is longer than is accepted once it is decompressed.
var errInflated = errors.New("the body is too long")

// errTrailing ends a body of which not all is compressed.
var errTrailing = errors.New("bytes follow its end")

// contentCoding is the coding of a body; empty for none. Several, one upon the other, are an error.
func contentCoding(r *http.Request) (string, error) {
	all := strings.FieldsFunc(strings.ToLower(strings.Join(r.Header["Content-Encoding"], ",")), func(c rune) bool { return strings.ContainsRune(", \t", c) })
	all = slices.DeleteFunc(all, func(coding string) bool { return coding == identity })
	switch len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	}
	return "", &statusError{http.StatusUnsupportedMediaType, invalid("the body is encoded %d times (%s); encode it once", len(all), strings.Join(all, ", "))}
}

// inflater reads what a body holds that is compressed, at most so many bytes.
type inflater struct {
	coding string
	from   io.ReadCloser
	in     *bufio.Reader // of from
	out    io.ReadCloser // made by the first Read, which may have to wait
	left   int64
}

// Read implements io.Reader.
func (f *inflater) Read(p []byte) (int, error) {
	if f.out == nil {
		var err error
		f.in = bufio.NewReader(f.from)
		switch f.coding {
		case codingGzip, "x-gzip":
			f.out, err = gzip.NewReader(f.in)
		case codingDeflate:
			f.out, err = zlib.NewReader(f.in)
		default:
			return 0, &statusError{http.StatusUnsupportedMediaType, invalid("the body is encoded as %q; send it as gzip, deflate or without compression", f.coding)}
		}
		if err != nil {
			f.out = nil
			return 0, f.broken(err)
		}
	}
	n, err := f.out.Read(p)
	if f.left -= int64(n); f.left < 0 {
		return 0, errInflated
	}
	if err == io.EOF && f.coding == codingDeflate { // gzip looks for another member by itself
		if _, err = f.in.ReadByte(); err == nil {
			err = errTrailing
		}
	}
	if err != nil && err != io.EOF {
		return n, f.broken(err)
	}
	return n, err
}

// broken is the error of a body that is not what it says, or that could not be read.
func (f *inflater) broken(err error) error {
	for _, known := range []error{gzip.ErrHeader, gzip.ErrChecksum, zlib.ErrHeader, zlib.ErrChecksum, zlib.ErrDictionary, errTrailing} {
		if errors.Is(err, known) {
			return invalid("the body is not %s, which its Content-Encoding names: %v", f.coding, err)
		}
	}
	if text := err.Error(); strings.HasPrefix(text, "flate: ") || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid("the body is not %s, which its Content-Encoding names: %v", f.coding, err)
	}
	return err
}

// Close implements io.Closer.
func (f *inflater) Close() error { return f.from.Close() }

// accepted is the coding for an answer of so many bytes; empty for none, which is also what a
// request gets that gives more weight to it.
func accepted(r *http.Request, size int) string {
	if size < worthwhile {
		return ""
	}
	best, most, plain := "", 0.0, 0.0
	for _, one := range strings.Split(strings.ToLower(strings.Join(r.Header["Accept-Encoding"], ",")), ",") {
		coding, parameters, _ := strings.Cut(one, ";")
		coding = strings.TrimSpace(coding)
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameters), "q="); ok {
			weight, _ = strconv.ParseFloat(strings.TrimSpace(q), 64)
		}
		if (coding == codingGzip || coding == codingDeflate) && weight > most {
			best, most = coding, weight
		}
		if coding == identity {
			plain = weight
		}
	}
	if most < plain {
		return ""
	}
	return best
}

// compress writes an answer that is compressed.
func compress(w http.ResponseWriter, coding, contentType string, body []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(listen.AnswerTime)) // not every writer has one
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Encoding", coding)
	w.Header().Set("Vary", "Accept-Encoding")
	w.WriteHeader(http.StatusOK)
	var to io.WriteCloser
	var err error
	if coding == codingGzip {
		to, err = gzip.NewWriterLevel(w, gzip.BestSpeed)
	} else {
		to, err = zlib.NewWriterLevel(w, zlib.BestSpeed)
	}
	if err == nil { // always: the level is a known one
		_, _ = to.Write(body)
		_ = to.Close()
	}
}
