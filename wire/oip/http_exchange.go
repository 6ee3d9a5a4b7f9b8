package oip

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/propagation"
)

// ErrTooLong is what Do fails with when an answer is longer than allowed.
var ErrTooLong = errors.New("the answer is too long")

// trusted is how many bytes the length of an answer alone is given memory for.
const trusted = 64 << 20

// HTTPRequest is one HTTP request of the protocol.
type HTTPRequest struct {
	Method    string
	URL       string
	Token     string // sent as "Authorization: Bearer TOKEN"; empty sends none
	Body      []byte // as package oip encodes it; nil where there is none
	Header    int    // length of the body's JSON part where binary data follow, else -1
	MaxAnswer int64  // bytes
}

// HTTPAnswer is what a server has answered, whatever its status. What refuses a request does not
// hold the request's token.
type HTTPAnswer struct {
	Status int
	Header http.Header
	Body   []byte
}

// JSON is the length of the body's JSON part where binary data follow, else -1.
func (a *HTTPAnswer) JSON() (int, error) {
	return ParseHeaderLength(a.Header.Get(HeaderLength))
}

// Do sends a request, with the W3C trace context of ctx, and reads the answer. The answer is nil where none came; with
// an error it has no body.
func Do(ctx context.Context, client *http.Client, q HTTPRequest) (*HTTPAnswer, error) {
	r, err := http.NewRequestWithContext(ctx, q.Method, q.URL, bytes.NewReader(q.Body))
	if err != nil {
		return nil, err
	}
	switch {
	case q.Body == nil:
	case q.Header >= 0:
		r.Header.Set("Content-Type", ContentBinary)
		r.Header.Set(HeaderLength, strconv.Itoa(q.Header))
	default:
		r.Header.Set("Content-Type", ContentJSON)
	}
	if q.Token != "" {
		r.Header.Set("Authorization", "Bearer "+q.Token)
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := readAnswer(resp, q.MaxAnswer)
	if resp.StatusCode >= 300 {
		body = []byte(Hide(string(body), q.Token))
	}
	return &HTTPAnswer{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
}

// readAnswer reads the body; ErrTooLong when it is longer than most bytes.
func readAnswer(resp *http.Response, most int64) ([]byte, error) {
	n := resp.ContentLength
	switch {
	case n > most:
		return nil, ErrTooLong
	case n >= 0 && n <= trusted:
		body := make([]byte, n)
		if _, err := io.ReadFull(resp.Body, body); err != nil {
			return nil, err
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = ErrTooLong
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}
