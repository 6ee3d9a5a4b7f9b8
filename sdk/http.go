package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip"
)

// overHTTP is the transport that Dial makes.
type overHTTP struct {
	base   string
	token  string
	client *http.Client
}

// String is the gateway's URL.
func (t *overHTTP) String() string { return t.base }

// check asks the gateway whether it is there and takes the token. The list of
// models is not part of the protocol: a server without it is asked for its own
// metadata, which is.
func (t *overHTTP) check(ctx context.Context) error {
	_, err := t.Pipelines(ctx)
	if errors.Is(err, wire.ErrNotFound) {
		_, _, err = t.do(ctx, http.MethodGet, "/v2", nil, -1)
	}
	return err
}

// Pipelines implements Transport.
func (t *overHTTP) Pipelines(ctx context.Context) ([]string, error) {
	body, _, err := t.do(ctx, http.MethodGet, "/v2/models", nil, -1)
	if err != nil {
		return nil, err
	}
	return oip.DecodeList(body)
}

// Metadata implements Transport.
func (t *overHTTP) Metadata(ctx context.Context, pipeline string) (*wire.Metadata, error) {
	body, _, err := t.do(ctx, http.MethodGet, "/v2/models/"+url.PathEscape(pipeline), nil, -1)
	if err != nil {
		return nil, err
	}
	return oip.DecodeMetadata(body)
}

// Infer implements Transport.
func (t *overHTTP) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	var timeout time.Duration
	if at, ok := ctx.Deadline(); ok {
		if timeout = time.Until(at); timeout <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	body, header, err := oip.EncodeRequest(q, timeout)
	if err != nil {
		return nil, err
	}
	answer, header, err := t.do(ctx, http.MethodPost, "/v2/models/"+url.PathEscape(q.Pipeline)+"/infer", body, header)
	if err != nil {
		return nil, err
	}
	r, err := oip.DecodeResponse(answer, header)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInternal, "", "the gateway's answer cannot be read: %v", err)
	}
	return r, nil
}

// do sends a request and reads the answer: its body, and the length of its
// JSON part where it has binary data, or else -1.
func (t *overHTTP) do(ctx context.Context, method, path string, body []byte, header int) ([]byte, int, error) {
	r, err := http.NewRequestWithContext(ctx, method, t.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if header >= 0 {
		r.Header.Set("Content-Type", oip.ContentBinary)
		r.Header.Set(oip.HeaderLength, strconv.Itoa(header))
	}
	if t.token != "" {
		r.Header.Set("Authorization", "Bearer "+t.token)
	}
	resp, err := t.client.Do(r)
	if err != nil {
		return nil, 0, t.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	answer, err := read(resp)
	if err != nil {
		return nil, 0, t.unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, 0, oip.DecodeError(resp.StatusCode, answer)
	}
	header, err = oip.ParseHeaderLength(resp.Header.Get(oip.HeaderLength))
	return answer, header, err
}

func read(resp *http.Response) ([]byte, error) {
	const trusted = 64 << 20 // what a length alone is given memory for
	if resp.ContentLength < 0 || resp.ContentLength > trusted {
		return io.ReadAll(resp.Body)
	}
	body := make([]byte, resp.ContentLength)
	_, err := io.ReadFull(resp.Body, body)
	return body, err
}

// unreachable explains a failure below the protocol, unless the caller's own
// context has ended.
func (t *overHTTP) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("no gateway answers at %s; start one with harpagon up, or check the address: %w", t.base, err)
}
