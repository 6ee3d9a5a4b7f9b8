package sdk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/oip/oiphttp"
)

// overHTTP is the transport that Dial makes.
type overHTTP struct {
	base   string
	client *oiphttp.Client
}

func newOverHTTP(base, token string, client *http.Client) *overHTTP {
	t := &overHTTP{base: base}
	t.client = oiphttp.New(oiphttp.Options{URL: base, Token: token, MaxAnswer: math.MaxInt64 - 1, Binary: true, HTTP: client, Broken: t.unreachable})
	return t
}

// String is the gateway's URL.
func (t *overHTTP) String() string { return t.base }

// check asks the gateway whether it is there and takes the token. The list of
// models is not part of the protocol: a server without it is asked for its own
// metadata, which is.
func (t *overHTTP) check(ctx context.Context) error {
	_, err := t.client.Models(ctx)
	if errors.Is(err, wire.ErrNotFound) {
		err = t.client.About(ctx)
	}
	return err
}

// Pipelines implements Transport.
func (t *overHTTP) Pipelines(ctx context.Context) ([]string, error) { return t.client.Models(ctx) }

// Metadata implements Transport.
func (t *overHTTP) Metadata(ctx context.Context, pipeline string) (*wire.Metadata, error) {
	return t.client.Metadata(ctx, pipeline, "")
}

// Infer implements Transport.
func (t *overHTTP) Infer(ctx context.Context, q *wire.InferRequest) (*wire.InferResponse, error) {
	if at, ok := ctx.Deadline(); ok && time.Until(at) <= 0 {
		return nil, context.DeadlineExceeded
	}
	return t.client.Infer(ctx, q, "")
}

// unreachableError is a failure below the protocol: there is no answer.
type unreachableError struct {
	base  string
	cause error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("no gateway answers at %s; start one with harpagon up, or check the address: %v", e.base, e.cause)
}

func (e *unreachableError) Unwrap() error { return e.cause }

// dialing says that no connection could be made.
func (e *unreachableError) dialing() bool {
	var op *net.OpError
	return errors.As(e.cause, &op) && op.Op == "dial"
}

// unreachable explains a failure below the protocol, unless the caller's own
// context has ended.
func (t *overHTTP) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &unreachableError{t.base, err}
}
